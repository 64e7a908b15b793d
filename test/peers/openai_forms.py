"""What Python's clients make of answers that must have a form: openai_forms.py BASE_URL. Prints a line for each scenario."""

import sys
from typing import Literal, Optional

import openai
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

settings = {"base_url": sys.argv[1], "api_key": "key", "max_retries": 0}
client = openai.OpenAI(**settings)
messages = [{"role": "user", "content": "Where is it?"}]


class Place(BaseModel):
    city: Literal["Rome", "Oslo"]
    floor: Literal[1, 2, 3]
    open: Optional[bool]


def expect_place(found):
    if not isinstance(found, Place):
        raise AssertionError(f"{found!r} is no place")


parsed = client.chat.completions.parse(model="mine", messages=messages, response_format=Place, temperature=0)
expect_place(parsed.choices[0].message.parsed)
print("ok parse")

with client.chat.completions.stream(model="mine", messages=messages, response_format=Place) as stream:
    text = "".join(event.delta for event in stream if event.type == "content.delta")
    expect_place(stream.get_final_completion().choices[0].message.parsed)
expect_place(Place.model_validate_json(text))
print("ok stream")

tools = [openai.pydantic_function_tool(Place, name="go")]
choice = {"type": "function", "function": {"name": "go"}}
with client.chat.completions.stream(model="mine", messages=messages, tools=tools, tool_choice=choice) as stream:
    expect_place(stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments)
print("ok tool")

expect_place(client.responses.parse(model="mine", input="Where is it?", text_format=Place).output_parsed)
with client.responses.stream(model="mine", input="Where is it?", text_format=Place) as stream:
    expect_place(stream.get_final_response().output_parsed)
print("ok responses")

set_tracing_disabled(True)
for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
    model = kind(model="mine", openai_client=openai.AsyncOpenAI(**settings))
    guide = Agent(name="guide", model=model, output_type=Place)
    expect_place(Runner.run_sync(guide, "Where is it?").final_output)
print("ok agents")

model = OpenAIChatModel("mine", provider=OpenAIProvider(openai_client=openai.AsyncOpenAI(**settings)))
for output in (NativeOutput(Place), ToolOutput(Place)):
    expect_place(PydanticAgent(model, output_type=output).run_sync("Where is it?").output)
print("ok pydantic_ai")
