"""Loads folders that Leyden wrote with transformers and PEFT, and compares their logits with Leyden's. Started by bench/hugging_face.ts.

A line of JSON in names a folder, token ids and the logits that Leyden gives after each of them; a line out says by how much those of
transformers differ. Ends with code 1 and a sentence where a tensor is missing or left over, or where weights load as another type than they were written in.
"""

import json
import os
import sys
import warnings

# What loading says of itself goes to stderr; that a tensor is missing is checked below, in words.
warnings.filterwarnings("ignore")

import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM


def written_in(file):
    with safe_open(file, "pt") as tensors:
        return {tensors.get_tensor(name).dtype for name in tensors.keys()}


def load_model(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    wrong = {key: sorted(names) for key, names in info.items() if names and key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if wrong:
        sys.exit(f"{folder}: {wrong}")
    file = os.path.join(folder, "model.safetensors")
    if os.path.exists(file) and written_in(file) != {model.dtype}:
        sys.exit(f"{folder}: weights written as {written_in(file)} load as {model.dtype}")
    return model


def load_adapter(folder, config):
    base = config["base_model_name_or_path"]
    model = PeftModel.from_pretrained(load_model(base if os.path.isabs(base) else os.path.join(folder, base)), folder)
    with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as tensors:
        written = set(tensors.keys())
    expected = {name.replace(".default", "") for name in model.state_dict() if ".lora_" in name}
    if written != expected:
        sys.exit(f"{folder}: missing {sorted(expected - written)}, left over {sorted(written - expected)}")
    return model


for line in sys.stdin:
    given = json.loads(line)
    adapter = os.path.join(given["folder"], "adapter_config.json")
    if os.path.exists(adapter):
        with open(adapter) as file:
            model = load_adapter(given["folder"], json.load(file))
    else:
        model = load_model(given["folder"])
    ours = torch.tensor(given["logits"])
    with torch.no_grad():
        theirs = model.float().eval()(input_ids=torch.tensor([given["ids"]])).logits[0]
    difference = (theirs - ours).abs().max() / ours.abs().max()
    print(json.dumps({"folder": given["folder"], "difference": difference.item()}), flush=True)
