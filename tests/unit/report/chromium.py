"""A real headless Chromium, spoken to over pipes (its DevTools protocol), for pages that tfwave writes."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 60.0
"""For any one answer: none of these waits measures anything."""


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page; `complaints` are what its console and its scripts said that should not be said."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._unread = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": found["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def open(self, path: Path, width: int = 1280, *, dark: bool = False) -> None:
        """Load a file as on a screen of this width, in pixels."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url=path.absolute().as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def value(self, script: str) -> Any:
        """What an expression gives in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + SECONDS
        while not self.value(script):
            assert time.monotonic() < end, f"never: {script}"
            time.sleep(0.02)

    def press(self, key: str, text: str = "") -> None:
        """Press and let go of a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "")

    def click(self, x: float, y: float) -> None:
        """Move there, press and let go of the left button."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wheel(self, x: float, y: float, *, by: float, ctrl: bool) -> None:
        """Turn the wheel, with or without the key Ctrl."""
        self.ask(
            "Input.dispatchMouseEvent",
            **{"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by, "modifiers": 2 * ctrl},
        )

    def save(self, path: Path) -> None:
        """The whole page as a picture."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._note(answer)

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, *_ = select.select([self._reads], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._reads, 1 << 16)
            assert chunk, "the browser has ended"
            self._unread += chunk
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif (method == "Runtime.consoleAPICalled" and told["type"] in {"error", "warning", "assert"}) or (
            method == "Log.entryAdded" and told["entry"]["level"] in {"error", "warning"}
        ):
            self.complaints.append(json.dumps(told))


@contextmanager
def opened(directory: Path) -> Generator[Page]:
    """A browser with one page; its profile goes to `directory`, and it ends with the block."""
    program = chromium()
    assert program is not None
    with ExitStack() as stack:
        to_read, to_write = os.pipe(), os.pipe()
        for end in (*to_read, *to_write):
            os.set_inheritable(end, True)
        commands, answers = to_read[0], to_write[1]
        shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
        own = (f"--user-data-dir={directory}", "--remote-debugging-pipe", "--disable-background-networking")
        browser = subprocess.Popen(
            ["bash", "-c", shell, program, *flags, *own],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        stack.callback(os.close, to_read[1])
        stack.callback(os.close, to_write[0])
        stack.callback(browser.wait)
        stack.callback(browser.kill)
        yield Page(to_write[0], to_read[1])
