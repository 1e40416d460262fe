"""Pages in a real browser: every chart is drawn, and nothing is loaded from elsewhere.

Needs Chromium (Debian: `apt-get install chromium`); skipped, with the reason, where there is none.
"""

import re
import shutil
import subprocess

import numpy as np
import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
]


@pytest.fixture(scope="module")
def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if not found:
        pytest.skip("there is no Chromium to look at the page with")
    return found


def looked_at(chromium, page):
    """The page as a browser sees it, and what it complained about."""
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [chromium, *FLAGS, profile, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def check_page(chromium, page, charts):
    """The page draws its charts, complains about nothing and loads nothing."""
    html = page.read_text()
    ours = html.split("<script>")[0]  # before the code of ECharts
    assert not re.search(r"<[^>]*(src=|href=\"[^#])|url\(|@import", ours)
    dom, complaints = looked_at(chromium, page)
    assert dom.count("<canvas") == html.count('<div class="plot"') == charts
    assert complaints == []


def test_the_page_of_check_draws_its_charts_and_loads_nothing(chromium, sandbox):
    rows = np.random.default_rng(1).standard_normal((400, 8)).astype(np.float32)
    np.save(sandbox.folder / "rows.npy", rows)
    sandbox.ok("featurize", "new", "--data", "rows.npy", "--out", "spec.json")
    sandbox.ok("featurize", "check", "--spec", "spec.json", "rows.npy", "--html", "check.html")
    check_page(chromium, sandbox.folder / "check.html", 3)


def test_the_page_of_evaluate_draws_its_charts_and_loads_nothing(chromium, sandbox):
    sandbox.ok("data", "generate", "shop", "--users", "80", "--items", "60", "--out", "shop")
    data = ["--interactions", "shop/interactions.csv", "--split", "leave-last-one"]
    sandbox.ok("train", "bpr", *data, "--dim", "4", "--epochs", "2", "--out", "run")
    sandbox.ok("evaluate", "--run", "run", "--html", "evaluation.html")
    check_page(chromium, sandbox.folder / "evaluation.html", 3)
