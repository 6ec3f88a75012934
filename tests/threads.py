"""What tests of threads share."""

import threading

from threadpoolctl import threadpool_info

PATIENCE = 60  # seconds; only a deadlock takes as long


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def blas_threads_of(_=None):
    return set(blas_threads())


def in_threads(*functions):
    """Run functions at once, each in its own thread; return their results, or raise the first one's error."""
    results, errors = [None] * len(functions), []

    def run(index, function):
        try:
            results[index] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "deadlock"
    if errors:
        raise errors[0]
    return results
