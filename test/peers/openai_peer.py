"""What Python's openai makes of the endpoint: openai_peer.py BASE_URL. Prints a line for each scenario."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="key", max_retries=0)
user = [{"role": "user", "content": "hi"}]
parameters = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
tools = [{"type": "function", "function": {"name": "calculator", "description": "Adds.", "parameters": parameters}}]


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


answer = client.chat.completions.create(model="demo", messages=user, extra_body={"return_token_ids": True})
expect(answer.choices[0].message.content, "Hello you there.")
expect(bytes(answer.choices[0].token_ids), b"Hello you there.\n")
print("ok chat")

chunks = list(client.chat.completions.create(model="demo", messages=user, stream=True, stream_options={"include_usage": True}))
expect([c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content], ["Hello ", "you ", "there."])
expect(chunks[-1].usage.completion_tokens, 17)
print("ok stream")

messages = [{"role": "user", "content": "add"}]
asked = client.chat.completions.create(model="demo", messages=messages, tools=tools).choices[0].message
messages.append(asked)
for call in asked.tool_calls:
    given = json.loads(call.function.arguments)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": str(given["a"] + given["b"])})
expect(client.chat.completions.create(model="demo", messages=messages, tools=tools).choices[0].message.content, "It is 4 and 6.")
print("ok tools")

with client.responses.stream(model="demo", input="hi") as stream:
    words = [event.delta for event in stream if event.type == "response.output_text.delta"]
    expect(stream.get_final_response().output_text, "Hello you there.")
expect(words, ["Hello ", "you ", "there."])
print("ok responses")

for model, content, wanted in [("other", "hi", openai.NotFoundError), ("demo", "fail", openai.RateLimitError)]:
    try:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}])
        raise AssertionError("no error")
    except wanted as error:
        expect(error.request_id is not None, True)
print("ok errors")
