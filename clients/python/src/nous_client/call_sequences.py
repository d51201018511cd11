"""Work of several calls, written once for the blocking client and the asynchronous one.

Steps are a generator that yields each call, is sent its answer, and returns what comes of them. A refusal is raised
where the call was yielded.
"""

from collections.abc import Generator
from typing import Any, TypeVar

from nous_client.calls import Call
from nous_client.client import AsyncNous, Nous
from nous_client.errors import Refused

Result = TypeVar("Result")
Steps = Generator[Call[Any], Any, Result]


def run_steps(nous: Nous, steps: Steps[Result]) -> Result:
    """Run the steps, sending their calls by `nous`; returns their result."""
    try:
        call = next(steps)
        while True:
            try:
                answer = nous.send(call)
            except Refused as refusal:
                call = steps.throw(refusal)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result


async def arun_steps(nous: AsyncNous, steps: Steps[Result]) -> Result:
    """Run the steps, sending their calls by `nous`; returns their result."""
    try:
        call = next(steps)
        while True:
            try:
                answer = await nous.send(call)
            except Refused as refusal:
                call = steps.throw(refusal)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
