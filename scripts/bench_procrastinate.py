#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""How many jobs that do nothing procrastinate works off in a second, the queue being full: one worker, ten jobs at a time.

    bench_procrastinate.py URL JOBS

The database is to be empty. Ends with 69 where the package is missing.
"""
import asyncio
import logging
import sys
import time

try:
    import procrastinate
except ImportError:
    sys.exit(69)

BATCH = 1000


async def main(url: str, jobs: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, jobs, BATCH):
            await nothing.batch_defer_async(*({"number": n} for n in range(start, min(start + BATCH, jobs))))
        start = time.monotonic()
        await app.run_worker_async(wait=False, concurrency=10, listen_notify=False, install_signal_handlers=False)
        seconds = time.monotonic() - start
        left = await app.job_manager.list_jobs_async(status="todo")
        if len(list(left)) > 0:
            sys.exit("jobs are left")
    print(jobs / seconds)


logging.disable(logging.CRITICAL)
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
