"""Write `docs/passes.md` again from the docstrings of the passes."""

from pathlib import Path

from tfwave.passes.catalogue import catalogue_page

TARGET = Path(__file__).parent.parent / "docs" / "passes.md"

if __name__ == "__main__":
    TARGET.write_text(catalogue_page())
    print(f"{TARGET} written")
