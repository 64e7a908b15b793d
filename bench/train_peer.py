"""A process of `bench -- train`: the steps of bench/train_learner.ts with PyTorch and transformers, whose figures it prints as JSON.

As one would write it: rows of about the same length padded together, eight at a time; logits of every token; PyTorch's own attention and AdamW.
"""

import json
import os
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM

ROWS_AT_ONCE = 8

with open(sys.argv[1]) as file:
    job = json.load(file)
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
model = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
rows = sorted(job["rows"], key=lambda row: len(row["tokens"]))
scored = sum(sum(row["scored"]) for row in rows)


def padded(rows, name):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True)


def step():
    optimizer.zero_grad()
    place = 0
    for i in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[i : i + ROWS_AT_ONCE]
        ids, mask = padded(some, "tokens"), padded(some, "scored")[:, 1:] == 1
        seen = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row["tokens"]), dtype=torch.long) for row in some], batch_first=True)
        logits = model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1]
        logprobs = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0][mask]
        weights = torch.arange(place, place + len(logprobs)).sin() / scored
        (logprobs * weights).sum().backward()
        place += len(logprobs)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


step()
wall, cpu = [], []
for _ in range(job["steps"]):
    began, used = time.perf_counter(), time.process_time()
    step()
    wall.append(time.perf_counter() - began)
    cpu.append(time.process_time() - used)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({"tokens": sum(len(row["tokens"]) for row in rows), "wall_s": min(wall), "cpu_s": min(cpu), "peak_mb": peak}))
