"""The Responses API of the package openai (pip install openai): `sdk.py responses VERB` runs this.

Its conversations are items in place of messages.
"""

import base64
import json

from openai import BadRequestError, pydantic_function_tool


def run(client, model, form, verb, *more):
    """Runs a verb with a client of sdk.py; `form` is a Pydantic model of a call."""
    tool = pydantic_function_tool(form)["function"] | {"type": "function"}

    def create():
        answer = client.responses.create(
            model=model, input="Name a colour.", max_output_tokens=20, temperature=0
        )
        print(answer.output_text, answer.status)
        assert answer.output_text and answer.status in ("completed", "incomplete")
        usage = answer.usage
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens

        # A stored answer is continued, and then deleted.
        options = {"model": model, "max_output_tokens": 20, "store": True}
        first = client.responses.create(**options, input="Name a colour.")
        assert client.responses.retrieve(first.id).output_text == first.output_text
        second = client.responses.create(
            **options, input="Another one.", previous_response_id=first.id
        )
        print(second.output_text)
        assert second.usage.input_tokens_details.cached_tokens > first.usage.input_tokens
        for stored in (first, second):
            client.responses.delete(stored.id)

    def stream():
        with client.responses.stream(
            model=model, input="Name a colour.", max_output_tokens=20
        ) as events:
            kinds, said = [], ""
            for event in events:
                kinds.append(event.type)
                if event.type == "response.output_text.delta":
                    said += event.delta
        last = event.response
        print(said)
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] in ("response.completed", "response.incomplete")
        assert said == last.output_text and last.usage.output_tokens > 0

    def tools():
        items = [{"role": "user", "content": "Drive to the kitchen."}]
        options = {"model": model, "tools": [tool], "max_output_tokens": 60}
        first = client.responses.create(
            **options, input=items, tool_choice="required", parallel_tool_calls=False
        )
        (call,) = [item for item in first.output if item.type == "function_call"]
        go = form.model_validate_json(call.arguments)
        print(call.name, go)
        result = {"type": "function_call_output", "call_id": call.call_id}
        items += first.output + [result | {"output": json.dumps({"at": go.room})}]
        last = client.responses.create(**options, input=items, tool_choice="none")
        print(last.output_text)
        assert last.output_text and last.status in ("completed", "incomplete")

    def parse():
        answer = client.responses.parse(
            model=model, input="Drive slowly to the hall.", text_format=form, max_output_tokens=60
        )
        print(repr(answer.output_parsed))
        assert isinstance(answer.output_parsed, form)

    def image(file):
        with open(file, "rb") as picture:
            url = "data:image/png;base64," + base64.b64encode(picture.read()).decode()
        parts = [
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_text", "text": "What is this?"},
        ]
        answer = client.responses.create(
            model=model, input=[{"role": "user", "content": parts}], max_output_tokens=12
        )
        print(answer.output_text, answer.usage.input_tokens)
        assert answer.usage.input_tokens > 16

    def refuse():
        try:
            client.responses.create(model=model, input="Name a colour.", truncation="auto")
        except BadRequestError as error:
            print(error.param, error)
            assert error.param == "truncation"
        else:
            raise SystemExit("FAILED: a field was ignored")
        answer = client.responses.create(
            model=model,
            input="Left or right?",
            extra_body={"ganglion": {"choice": ["left", "right"], "priority": "background"}},
        )
        assert answer.output_text in ("left", "right")

    verbs = {
        "chat": create,
        "stream": stream,
        "tools": tools,
        "parse": parse,
        "image": image,
        "refuse": refuse,
    }
    verbs[verb](*more)
