"""Word problems with a calculator: an AutoGen agent, traced by OpenTelemetry, as a worker of `leyden rollouts run`."""

import asyncio
import json
import re
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openai import DefaultAsyncHttpxClient
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

MOST_CALLS = 4

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=200))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("math_tool")
# One for all rollouts: a client of one's own for each reads the machine's certificates anew, 26 ms of processor time.
http_client = DefaultAsyncHttpxClient()


def calculate(expression: str) -> str:
    """Adds, subtracts or multiplies two numbers, written a + b, a - b or a * b."""
    read = re.fullmatch(r"(\d+)([+*-])(\d+)", expression.replace(" ", ""))
    if read is None:
        raise ValueError(f"cannot read {expression!r}")
    a, operator, b = int(read[1]), read[2], int(read[3])
    value = a + b if operator == "+" else a - b if operator == "-" else a * b
    if not 0 <= value <= 9999:
        raise ValueError(f"{value} is out of range")
    return str(value)


async def solve(task: dict) -> str:
    """The agent's last words for one problem."""
    model = OpenAIChatCompletionClient(
        model=task["model"],
        base_url=task["base_url"],
        api_key="none",
        temperature=task["sampling_parameters"].get("temperature", 1.0),
        max_tokens=16,
        http_client=http_client,
        model_info={"family": "unknown", "function_calling": True, "json_output": False, "structured_output": False, "vision": False},
    )
    agent = AssistantAgent(
        "solver", model, tools=[calculate], system_message="calculate then answer", max_tool_iterations=MOST_CALLS
    )
    result = await agent.run(task=task["input"]["question"])
    return result.messages[-1].to_text()


async def rollout(task: dict) -> dict:
    parent = TraceContextTextMapPropagator().extract({"traceparent": task["traceparent"]})
    with tracer.start_as_current_span("rollout", parent, attributes={"leyden.rollout.id": task["rollout_id"], "leyden.attempt.id": task["attempt_id"]}):
        answer = await solve(task)
    right = re.fullmatch(r"answer ([\d ]+)", answer.strip())
    correct = right is not None and right[1].replace(" ", "") == str(task["input"]["answer"])
    return {"status": "succeeded", "reward": 1.0 if correct else 0.0}


async def answer(task: dict) -> None:
    try:
        outcome = await rollout(task)
    except Exception as error:
        print(f"rollout {task['rollout_id']}: {error}", file=sys.stderr)
        outcome = {"status": "failed"}
    await asyncio.to_thread(provider.force_flush)
    print(json.dumps({"rollout_id": task["rollout_id"], "attempt_id": task["attempt_id"], **outcome}), flush=True)


async def main() -> None:
    """Runs every order that comes, all at once: `leyden rollouts run` gives no more than its --concurrency."""
    running: set[asyncio.Task] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        one = asyncio.create_task(answer(json.loads(line)))
        running.add(one)
        one.add_done_callback(running.discard)
    await asyncio.gather(*running)


asyncio.run(main())
