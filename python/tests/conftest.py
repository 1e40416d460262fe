"""The program under test, and a folder to run it in."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("VERIDICAL_BIN", ROOT / "target/debug/veridical"))


class Sandbox:
    """A folder that commands run in, with an environment of its own."""

    def __init__(self, folder, **environment):
        self.folder = folder
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "XDG_CACHE_HOME": str(folder / "cache"),
            **environment,
        }

    def start(self, *args, **options):
        """Starts a command in the folder and returns its process."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [PROGRAM, *map(str, args), "--quiet"]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **(pipes | options))

    def run(self, *args):
        """Runs a command and returns its exit code and stderr, without `veridical: error: `."""
        process = self.start(*args)
        _, said = process.communicate(timeout=120)
        return process.returncode, said.decode().strip().removeprefix("veridical: error: ")

    def ok(self, *args):
        """Runs a command that must succeed."""
        assert self.run(*args) == (0, ""), args

    def refuses(self, *args):
        """Runs a command that must exit with 2, and returns its one-line message."""
        code, said = self.run(*args)
        assert code == 2 and "\n" not in said, (args, code, said)
        return said

    def staged(self):
        """The names that are left in the staging folder."""
        return sorted(path.name for path in self.folder.glob("cache/veridical/staging/*"))


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)
