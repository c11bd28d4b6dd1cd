"""Converts models to one set of files with the workers of Dask, each of which writes whole parts.

    python examples/dask_convert.py IN... OUT.aeroset.json --parts 64

Without --address it starts workers on this machine. All of them must see the inputs and the folder of OUT.
"""

from __future__ import annotations

import argparse

from dask.distributed import Client, as_completed

import tensorfmt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", nargs="+")
    parser.add_argument("target")
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--cast", help="a dtype for all floats")
    parser.add_argument("--no-verify", action="store_true", help="don't check the inputs first")
    parser.add_argument("--address", help="of a scheduler; else one is started here")
    parser.add_argument("--workers", type=int, help="how many workers to start here")
    args = parser.parse_args()

    plan = tensorfmt.plan(
        args.source, args.target, parts=args.parts, cast=args.cast, verify=not args.no_verify
    )
    for loss in plan.losses:
        print("lost:", loss)
    if args.address:
        client = Client(args.address)
    else:
        client = Client(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    with client:
        # Dask gives the part of a worker that dies to another one.
        parts = client.map(plan.run, range(len(plan)), threads=1, pure=False)
        for _, part in as_completed(parts, with_results=True):
            print(f"part {part.number}/{part.of}: {part.tensors} tensors, {part.nbytes} bytes", flush=True)
    plan.join(remove_leftovers=True)
    print(plan.target)


if __name__ == "__main__":
    main()
