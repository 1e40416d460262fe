"""Description of the machine of a benchmark."""

import os
import platform
from pathlib import Path


def cpu_model():
    """Name of the CPU, with its widest vector extension."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    value = lambda key: next((x.split(":", 1)[1] for x in lines if x.startswith(key)), "").strip()
    flags = value("flags").split()
    vectors = [name for flag, name in [("avx512f", "AVX-512"), ("avx2", "AVX2")] if flag in flags]
    return " with ".join([value("model name") or platform.machine(), *vectors[:1]])


def described(load, threads, about):
    """The lines above the tables of a page; `about` is the self-description of our binary."""
    return [
        f"- CPU: {cpu_model()}, {os.cpu_count()} cores; {platform.system()}",
        f"- Load average before the run: {load:.2f}",
        f"- Threads: {threads} for all",
        f"- Veridical {about['version']}: `cargo build --release` for {about['target']}, not target-cpu=native",
    ]


def load_before():
    """The load of the machine, with a warning if it is not idle."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"# the machine is busy: load {load:.2f}", flush=True)
    return load
