"""Converts models to one set of files with the workers of Ray, each of which writes whole parts.

    python examples/ray_convert.py IN... OUT.safetensors.index.json --parts 64

Without --address it starts Ray on this machine. All workers must see the inputs and the folder of OUT.
"""

from __future__ import annotations

import argparse

import ray

import tensorfmt


@ray.remote(num_cpus=1, max_retries=5)
def run(plan: tensorfmt.Plan, part: int) -> tensorfmt.PlannedPart:
    """Writes one part; Ray gives it to another worker where this one dies."""
    return plan.run(part, threads=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", nargs="+")
    parser.add_argument("target")
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--cast", help="a dtype for all floats")
    parser.add_argument("--no-verify", action="store_true", help="don't check the inputs first")
    parser.add_argument("--address", help="of a cluster; else one is started here")
    parser.add_argument("--workers", type=int, help="how many workers to start here")
    args = parser.parse_args()

    plan = tensorfmt.plan(
        args.source, args.target, parts=args.parts, cast=args.cast, verify=not args.no_verify
    )
    for loss in plan.losses:
        print("lost:", loss)
    if args.address:
        ray.init(address=args.address)
    else:
        ray.init(num_cpus=args.workers, include_dashboard=False)
    # One copy for all workers.
    shared = ray.put(plan)
    waiting = [run.remote(shared, part) for part in range(len(plan))]
    while waiting:
        done, waiting = ray.wait(waiting)
        for part in ray.get(done):
            print(f"part {part.number}/{part.of}: {part.tensors} tensors, {part.nbytes} bytes", flush=True)
    ray.shutdown()
    plan.join(remove_leftovers=True)
    print(plan.target)


if __name__ == "__main__":
    main()
