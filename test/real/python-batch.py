"""The official Python client's batch code, unmodified, against one address. Prints what it got as one JSON object.
Usage: python-batch.py URL MODEL
"""

import json
import sys
import time

import openai

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def submit(count, tokens):
    lines = [
        {
            "custom_id": f"line-{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": model,
                "messages": [{"role": "user", "content": f"Write about the river number {n}."}],
                "max_tokens": tokens,
                "temperature": 0,
                "ignore_eos": True,
            },
        }
        for n in range(count)
    ]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    return file, client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"from": "python"},
    )


def until_over(batch):
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        time.sleep(0.2)
        batch = client.batches.retrieve(batch.id)
    return batch


got = {}
file, batch = submit(3, 4)
batch = until_over(batch)
got["status"] = batch.status
got["counts"] = [batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed]
got["metadata"] = batch.metadata
answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
got["ids"] = sorted(answer["custom_id"] for answer in answers)
got["tokens"] = [answer["response"]["body"]["usage"]["completion_tokens"] for answer in answers]
got["listed"] = batch.id in [listed.id for listed in client.batches.list(limit=10)]
got["deleted"] = client.files.delete(file.id).deleted

_, long = submit(40, 200)
time.sleep(1)
long = client.batches.cancel(long.id)
got["cancelling"] = long.status
long = until_over(long)
got["cancelled"] = long.status
kept = []
for id in (long.output_file_id, long.error_file_id):
    if id is not None:
        kept += [json.loads(line)["custom_id"] for line in client.files.content(id).text.splitlines()]
got["cancelledLines"] = len(kept)
got["cancelledOnce"] = len(set(kept)) == len(kept)
print(json.dumps(got))
