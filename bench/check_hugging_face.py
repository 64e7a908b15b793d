"""Loads folders that Leyden wrote with transformers and PEFT, and compares log-probabilities. By hand, where Python is present:

    pip install torch transformers peft
    python3 bench/check_hugging_face.py FOLDER ...

A folder is a model or an adapter. It must load without missing or unexpected tensors; printed is the mean log-probability of a fixed sequence.
"""

import os
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

for folder in sys.argv[1:]:
    adapter = os.path.join(folder, "adapter_config.json")
    if os.path.exists(adapter):
        import json

        with open(adapter) as file:
            base = json.load(file)["base_model_name_or_path"]
        base = base if os.path.isabs(base) else os.path.join(folder, base)
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), folder)
    else:
        model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        wrong = {key: names for key, names in info.items() if names and key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
        if wrong:
            sys.exit(f"{folder}: {wrong}")
    vocabulary = model.config.vocab_size
    ids = torch.tensor([[(3 + 17 * i * i) % vocabulary for i in range(24)]])
    with torch.no_grad():
        logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    print(f"{folder}: loads; mean log-probability {logprobs.gather(1, ids[0, 1:, None]).mean():.6f}")
