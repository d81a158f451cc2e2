#!/usr/bin/env python3
"""How long the disk takes for small durable writes: what every server waits for that keeps what it is given. Writes 420 bytes behind
each other into one file and syncs it, fifty times a second, and tells the times in ms. Run it with nothing else on the machine.

    bench/syncs.py [--seconds 20] [--folder .] [--out FILE]
"""
import argparse, json, os, tempfile, time

BYTES, PER_S = 420, 50

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--folder", default=".", help="of the disk that is asked")
    parser.add_argument("--out", help="file that the figures are written to")
    arguments = parser.parse_args()
    took = []
    with tempfile.TemporaryFile(dir=arguments.folder) as file:
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            os.pwrite(file.fileno(), bytes(BYTES), len(took) * BYTES)
            os.fdatasync(file.fileno())
            took.append(1000 * (time.perf_counter() - began))
            time.sleep(max(0, 1 / PER_S - took[-1] / 1000))
    took.sort()
    at = lambda share: round(took[min(len(took) - 1, int(share * len(took)))], 2)
    figures = {"command": f"bench/syncs.py --seconds {arguments.seconds:g}", "syncs": len(took), "p50_ms": at(0.5), "p99_ms": at(0.99), "longest_ms": [round(ms) for ms in took[-8:]]}
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.out:
        with open(arguments.out, "w") as out:
            out.write(text + "\n")

main()
