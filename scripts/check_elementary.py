"""Check elementary.h at all 2^32 float32 arguments: the table of docs/elementary.md.

Each function's error is measured against the C library's float64 (and long double where that cannot tell which float32 is
nearest), and the results of every instruction set this machine runs are compared through a checksum. Takes about an hour of
processor time; `--functions exp log` and `--jobs 2` cut it. Exits with 1 if a function misses 1 ulp or two sets differ.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FUNCTIONS = ("exp", "expm1", "log", "log1p", "sigmoid", "tanh", "normal_cdf", "normal_density", "sin", "cos")
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
X86_SETS = {"avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"], "avx2": ["-mavx2", "-mfma"]}
PARTS = 64


def build(isa: str, flags: list[str], folder: str) -> str:
    program = f"{folder}/{isa}"
    compiler = os.environ.get("CXX", "c++")
    subprocess.run(
        [
            compiler,
            *FLAGS,
            *flags,
            f"-DISA={isa}",
            f"-DISA_{isa.upper()}",
            HERE / "check_elementary.cpp",
            "-o",
            program,
        ],
        check=True,
    )
    return program


def build_all(folder: str) -> dict[str, list[str]]:
    """A command for each way to compute: the best instruction set first; it is the one whose error is measured."""
    sets: dict[str, list[str]] = {}
    if platform.machine() in ("x86_64", "AMD64"):
        present = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
        sets = {isa: flags for isa, flags in X86_SETS.items() if isa.replace("512", "512dq") in present}
    elif platform.machine() in ("arm64", "aarch64"):
        sets = {"neon": []}
    programs = {isa: build(isa, flags, folder) for isa, flags in {**sets, "plain": []}.items()}
    best = next(iter(programs))
    return {
        **{isa: [program, "hash"] for isa, program in programs.items()},
        f"{best}, one float": [programs[best], "scalar"],
    }


def run(program: str, function: str, part: int, *mode: str) -> list[str]:
    command = [program, function, str(part), str(PARTS), *mode]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=FUNCTIONS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        commands = build_all(folder)
        best, *others = commands
        print("| function | largest error, ulp | at | not correctly rounded | farthest, float32 numbers | undecided |")
        print("|---|---|---|---|---|---|", flush=True)
        for function in options.functions:
            parts = list(pool.map(lambda part: run(commands[best][0], function, part), range(PARTS)))  # noqa: B023
            checksums = [part[0] for part in parts]
            error, at = max((float(part[1]), part[2]) for part in parts)
            distance = max(int(part[3]) for part in parts)
            inexact, undecided = (sum(int(part[i]) for part in parts) for i in (5, 6))
            print(f"| {function} | {error:.4f} | {at} | {inexact / 2**32:.2%} | {distance} | {undecided} |", flush=True)
            good &= distance <= 1
            for other in others:
                program, mode = commands[other]
                found = list(pool.map(lambda part: run(program, function, part, mode)[0], range(PARTS)))  # noqa: B023
                if found != checksums:
                    good = False
                    print(
                        f"{function}: {other} differs from {best} in parts {[i for i in range(PARTS) if found[i] != checksums[i]]}"
                    )
        print(f"\nEqual bits at all arguments: {', '.join(commands)}." if good else "\nFAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
