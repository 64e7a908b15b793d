"""Tasks for `leyden rollouts run --tasks`, a JSON object a line, from the data sets of the recipes.

    python3 prepare.py spider train_spider.json > train.jsonl
    python3 prepare.py musique musique_ans_v1.0_train.jsonl > train.jsonl
    python3 prepare.py calc_x train.jsonl > train.jsonl

spider: train_spider.json, test_dev_500.json of https://yale-lily.github.io/spider; the databases stay where they are unpacked.
musique: musique_ans_v1.0_*.jsonl of https://github.com/StonyBrookNLP/musique.
calc_x: a split of https://huggingface.co/datasets/MU-NLPC/Calc-X, saved with `datasets`' `to_json`.
"""

import json
import sys


def spider(path):
    with open(path) as file:
        for number, row in enumerate(json.load(file)):
            yield {"task_id": f"spider-{number}", "database": row["db_id"], "question": row["question"], "sql": row["query"]}


def musique(path):
    for row in lines(path):
        answers = [row["answer"], *row.get("answer_aliases", [])]
        yield {"task_id": row["id"], "question": row["question"], "answers": answers}


def calc_x(path):
    for row in lines(path):
        yield {"task_id": str(row["id"]), "question": row["question"], "answer": row["result"]}


def lines(path):
    with open(path) as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


if __name__ == "__main__":
    readers = {"spider": spider, "musique": musique, "calc_x": calc_x}
    if len(sys.argv) != 3 or sys.argv[1] not in readers:
        sys.exit(__doc__)
    for task in readers[sys.argv[1]](sys.argv[2]):
        print(json.dumps(task))
