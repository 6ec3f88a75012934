"""The documentation does as it says: its Python blocks run, and its commands exist."""

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}


def fenced(markdown):
    """(info string, first line's number, text) of every fenced block."""
    return [(match["info"].strip(), markdown.count("\n", 0, match.start()) + 2, match["text"])
            for match in FENCE.finditer(markdown)]


def run_python_blocks(markdown, filename):
    """Run the blocks marked `python` in order, in one namespace; return how many there were."""
    namespace, count = {"__name__": "__main__"}, 0
    for info, line, text in fenced(markdown):
        if info == "python":
            exec(compile("\n" * (line - 1) + text, filename, "exec"), namespace)
            count += 1
    return count


def missing(markdown):
    """What the commands of console blocks, and commands in line, name that does not exist."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    commands = [line.removeprefix("$ ") for info, _, text in fenced(markdown) for line in text.splitlines()
                if info in ("console", "sh", "bash", "shell") and not line.startswith("#")]
    absent = []
    for command in commands:
        for part in re.split(r"&&|\|\||[;|]", command):
            words = [word for word in shlex.split(part) if "=" not in word.split("/")[0] or word.startswith("-")]
            if words and not _is_command(words[0], commands):
                absent.append(words[0])
            absent += [word for word in words[1:] if word.split("/")[0] in FOLDERS and not (ROOT / word).exists()]
    for word in re.findall(r"`([\w.]+/[\w./]+)`", markdown):
        if word.split("/")[0] in FOLDERS and not (ROOT / word).exists():
            absent.append(word)
    for names in re.findall(r"(?:\.|stelliferous-xp)\[([\w,]+)\]", markdown):
        absent += [f"[{name}]" for name in names.split(",") if name not in extras]
    return absent


def _is_command(word, commands):
    if word.startswith(".venv/bin/"):  # made by the command before it
        return any("-m venv .venv" in command for command in commands)
    return shutil.which(word) is not None or (ROOT / word).is_file() or word in ("cd", "export", ".")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_python_blocks_run(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    count = run_python_blocks(page.read_text(encoding="utf-8"), str(page))
    assert count or page.name != "README.md"
    assert "Traceback" not in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_exist(page):
    assert missing(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_public_names_in_the_readme_exist():
    """Those written as `sx.workers(n)`."""
    import stelliferous_xp as sx

    named = re.findall(r"\bsx\.(\w+)", PAGES[0].read_text(encoding="utf-8"))
    assert named
    assert set(named) <= set(sx.__all__)


# The checks themselves

SAMPLE = """
```python
value = 1
```
text `tests/absent.py` and `pip install '.[nothing,test]'`
```console
python3 -m venv .venv && .venv/bin/python examples/absent.py
surely-no-such-command --help
```
```python
value += 1
assert value == {expected}
```
```text
raise SystemExit
```
"""


def test_a_block_that_fails_is_seen_with_its_line():
    assert run_python_blocks(SAMPLE.format(expected=2), "sample.md") == 2
    with pytest.raises(AssertionError) as error:
        run_python_blocks(SAMPLE.format(expected=3), "sample.md")
    assert error.traceback[-1].lineno + 1 == SAMPLE.splitlines().index("assert value == {expected}") + 1


def test_what_is_missing_is_seen():
    assert missing(SAMPLE) == ["examples/absent.py", "surely-no-such-command", "tests/absent.py", "[nothing]"]
