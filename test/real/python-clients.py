"""The official Python clients, unmodified, against one address. Prints what they got as one JSON object.
Usage: python-clients.py URL MODEL
"""

import json
import sys

import anthropic
import openai

url, model = sys.argv[1:]
messages = [{"role": "user", "content": "Write about rivers."}]
ask = {"model": model, "messages": messages, "max_tokens": 8, "extra_body": {"temperature": 0}}
got = {}

client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
got["chat"] = client.chat.completions.create(**ask).usage.completion_tokens
usage = None
for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
    usage = chunk.usage or usage
got["stream"] = usage.completion_tokens

claude = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
got["message"] = claude.messages.create(**ask).usage.output_tokens
with claude.messages.stream(**ask) as stream:
    got["messageStream"] = stream.get_final_message().usage.output_tokens

try:
    client.chat.completions.create(**{**ask, "messages": [{"role": "user", "content": "word " * 3000}]})
except openai.APIStatusError as error:
    got["error"] = type(error).__name__

print(json.dumps(got))
