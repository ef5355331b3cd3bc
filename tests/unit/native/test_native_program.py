"""The harness of the C++ tests: what a sanitizer or a warning finds fails, and what cannot start is no success."""

from pathlib import Path

import pytest

from tests.unit.native import native_program
from tests.unit.native.compiled import ROOT, preprocessed
from tests.unit.native.native_program import (
    COMPILER,
    NATIVE,
    assert_holds,
    compile_program,
    each_sanitizer,
    needs_compiler,
)

FAULTS = {
    "thread": """
        #include <thread>
        int shared = 0;
        int main() {
          std::thread other([] { ++shared; });
          ++shared;
          other.join();""",
    "address": """
        int main(int count, char**) {
          volatile int* const numbers = new int[count];
          numbers[count] = 1;
          delete[] numbers;""",
    "undefined": """
        #include <climits>
        int main(int count, char**) {
          volatile int most = INT_MAX;
          most = most + count;""",
}
HOLDS = '\n  __builtin_puts("all hold");\n}\n'

pytestmark = needs_compiler


def _assert_holds(directory: Path, text: str, sanitizer: str) -> None:
    source = directory / "main.cc"
    source.write_text(text)
    assert_holds(directory, (), [source], 60, sanitizer)


@each_sanitizer
def test_what_a_sanitizer_finds_fails(tmp_path: Path, sanitizer: str) -> None:
    _assert_holds(tmp_path, "int main() {" + HOLDS, sanitizer)
    for name in sanitizer.split(","):
        with pytest.raises(AssertionError, match=r"Sanitizer|runtime error"):
            _assert_holds(tmp_path, FAULTS[name] + HOLDS, sanitizer)


def test_a_warning_fails(tmp_path: Path) -> None:
    source = tmp_path / "main.cc"
    source.write_text("int main() { int unused; }\n")
    assert "unused" in compile_program(tmp_path / "program", source, "address,undefined").stderr
    assert not (tmp_path / "program").exists()


def test_a_program_is_known_by_no_folder(tmp_path: Path) -> None:
    source = tmp_path / "main.cc"
    source.write_text(f'#include "{Path(__file__).parent}/sequencer_test.h"\n')
    text = preprocessed([str(COMPILER)], NATIVE, source)
    assert b'"tests/unit/native/sequencer_test.h"' in text
    assert str(ROOT).encode() not in text


def test_a_sanitizer_that_cannot_start_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "broken-c++"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n'
        'printf "#!/bin/sh\\necho FATAL: memory layout >&2\\nexit 66\\n" > "$2"; chmod +x "$2"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setattr(native_program, "COMPILER", str(compiler))
    native_program.sanitized_start.cache_clear()
    with pytest.raises(pytest.skip.Exception, match="nothing starts with -fsanitize=thread: FATAL: memory"):
        native_program.sanitized_start("thread")
    monkeypatch.setattr(native_program, "COMPILER", "/bin/false")
    with pytest.raises(pytest.skip.Exception, match="/bin/false has no runtime for -fsanitize=thread"):
        native_program.sanitized_start("thread")
