"""Installs a wheel into an empty environment and uses it there.

Run as `python3 python/wheel/check_wheel.py dist/veridical-0.1.0-py3-none-PLATFORM.whl`; exits with a
non-zero status on failure. No Rust tool is on the path while the command runs.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path()
# A stripped wheel takes about 12 MB even in the dev profile; with symbols, several times as much.
LARGEST = 25_000_000


class Wheel(unittest.TestCase):
    """The contents of the wheel."""

    def setUp(self):
        self.wheel = zipfile.ZipFile(WHEEL)
        self.names = self.wheel.namelist()

    def one(self, end):
        found = [name for name in self.names if name.endswith(end)]
        self.assertEqual(len(found), 1, f"{end} in {self.names}")
        return found[0]

    def test_its_name_and_metadata_are_those_of_the_command(self):
        metadata = Parser().parsestr(self.wheel.read(self.one("/METADATA")).decode())
        cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
        command = tomllib.loads((ROOT / "crates/cli/Cargo.toml").read_text())["package"]
        self.assertEqual(metadata["Name"], "veridical")
        self.assertEqual(metadata["Version"], cargo["version"])
        self.assertEqual(metadata["License-Expression"], cargo["license"])
        self.assertEqual(metadata["Summary"], command["description"])
        start = f"veridical-{cargo['version']}-py3-none-"
        self.assertTrue(WHEEL.name.startswith(start), WHEEL.name)
        self.assertTrue(metadata.get_payload().startswith("# Veridical\n"))
        self.assertIsNone(metadata["Requires-Dist"])

    def test_it_holds_both_licenses_and_one_program(self):
        for name in ("LICENSE-MIT", "LICENSE-APACHE"):
            text = self.wheel.read(self.one(f"/licenses/{name}"))
            self.assertEqual(text, (ROOT / name).read_bytes())
        scripts = [name for name in self.names if "/scripts/" in name]
        self.assertEqual([Path(name).stem for name in scripts], ["veridical"])

    def test_it_holds_man_pages_and_completions(self):
        self.one("/data/share/man/man1/veridical.1")
        self.one("/data/share/man/man1/veridical-featurize-apply.1")
        self.one("/data/share/bash-completion/completions/veridical")
        self.one("/data/share/zsh/site-functions/_veridical")
        self.one("/data/share/fish/vendor_completions.d/veridical.fish")

    def test_it_is_stripped(self):
        program = self.wheel.read(self.one("/scripts/veridical"))
        for section in (b"\0.symtab\0", b"\0.debug_info\0"):  # names of an ELF file
            self.assertFalse(section in program, section)
        self.assertLess(WHEEL.stat().st_size, LARGEST)


class Installed(unittest.TestCase):
    """The command as installed by a user who has Python and no Rust."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.home = Path(cls.folder.name)
        venv.create(cls.home / "env", with_pip=True)
        pip = [cls.home / "env/bin/python", "-m", "pip", "install", "--quiet"]
        offline = ["--disable-pip-version-check", "--no-index"]
        subprocess.run([*pip, *offline, WHEEL.resolve()], check=True)

    def run_line(self, line):
        """Runs a line of the README with the environment's programs and those of the system."""
        environment = {
            "PATH": os.pathsep.join([str(self.home / "env/bin"), "/usr/bin", "/bin"]),
            "HOME": str(self.home),
        }
        done = subprocess.run(
            line.split(),
            check=False,
            cwd=self.home,
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stderr}")
        return done.stdout

    def test_the_quick_start_works(self):
        self.assertRegex(self.run_line("veridical --version"), r"^veridical \d+\.\d+\.\d+$")
        self.assertIn("the geometry stays", self.run_line("veridical demo --out demo"))
        apply = "veridical featurize apply demo/monday.parquet phi.parquet"
        self.assertIn("written to phi.parquet", self.run_line(apply))
        new = "veridical featurize new --data demo/monday.parquet --out spec.json"
        self.assertIn("spec id", self.run_line(new))
        again = "veridical featurize apply --spec spec.json demo/monday.parquet phi2.parquet"
        self.run_line(again)
        same = (self.home / "phi.parquet").read_bytes() == (self.home / "phi2.parquet").read_bytes()
        self.assertTrue(same, "the defaults of apply and new are one")
        onnx = "veridical featurize export --spec spec.json --to onnx --out phi.onnx"
        self.assertIn("phi.onnx", self.run_line(onnx))
        self.assertGreater((self.home / "phi.onnx").stat().st_size, 1000)
        self.assertTrue((self.home / "env/share/man/man1/veridical.1").exists())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    WHEEL = Path(sys.argv.pop())
    unittest.main()
