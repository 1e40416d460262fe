"""Vectors that sentence-transformers gives texts, for `veridical data embed --encoder`.

    python tests/oracles/encoder/encoder.py [FOLDER of all-MiniLM-L6-v2]

Writes beside itself `tiny/`, a BERT of 2 layers with random weights as sentence-transformers saves one, and
`vectors.json`: texts and their vectors under it (mean of the tokens at unit length, the mean as it is, the first token) and,
with MiniLM's folder, under MiniLM.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

HERE = Path(__file__).parent
TINY = HERE / "tiny"

TEXTS = [
    "A masterpiece: every scene is a joy.",
    "the film was bad , very bad",
    "",
    "   ",
    "Café, naïve façade! 中文 \U0001f600",
    "good " * 60,
    "I have seen this movie twice, and the second time it was even better than the first.",
    "unbelievable\u0000 \u200b control",
]

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "film",
    "was",
    "bad",
    "very",
    "good",
    "i",
    "have",
    "seen",
    "this",
    "movie",
    "it",
    "and",
    "is",
    "joy",
    "every",
    "scene",
    "master",
    "##piece",
    "time",
    "##s",
    "better",
    "than",
    "first",
    "second",
    ",",
    ".",
    "!",
    ":",
    "?",
    "cafe",
    "un",
    "##be",
    "##lie",
    "##v",
    "##able",
    "tw",
    "##ice",
    "even",
    "to",
    "of",
    "great",
    "act",
    "##ing",
    "plot",
    "bor",
    "##ed",
    "love",
    "##d",
    "hate",
    "##e",
    "never",
    "again",
    "##er",
    "con",
    "##trol",
    "na",
    "##ive",
]

SENTENCE = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling",
        },
        {
            "idx": 2,
            "name": "2",
            "path": "2_Normalize",
            "type": "sentence_transformers.models.Normalize",
        },
    ],
    "sentence_bert_config.json": {"max_seq_length": 24, "do_lower_case": False},
    "1_Pooling/config.json": {
        "word_embedding_dimension": 16,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    },
}


assert len(set(WORDS)) == len(WORDS)


def tiny():
    shutil.rmtree(TINY, ignore_errors=True)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=32,
        type_vocab_size=2,
    )
    model = BertModel(config).eval()
    with torch.no_grad():
        # Far from zero, so that a layer, a bias or a position that is left out shows.
        for name, value in model.named_parameters():
            value.copy_(
                torch.randn_like(value) * 0.3 + (1.0 if "LayerNorm.weight" in name else 0.0)
            )
    model.save_pretrained(TINY)
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(WORDS[:5])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(TINY / "tokenizer.json"), pretty=False)
    (TINY / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    settings = {
        "do_lower_case": True,
        "tokenizer_class": "BertTokenizer",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
        "model_max_length": 32,
    }
    (TINY / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")
    for name, content in SENTENCE.items():
        path = TINY / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")


def changed(modules, pooling):
    """The vectors under the tiny model with so many modules and other pooling."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(TINY, copy)
        (copy / "modules.json").write_text(json.dumps(SENTENCE["modules.json"][:modules]))
        (copy / "1_Pooling/config.json").write_text(
            json.dumps(SENTENCE["1_Pooling/config.json"] | pooling)
        )
        return vectors(copy)


def vectors(folder):
    model = SentenceTransformer(str(folder), device="cpu")
    return [[float(f"{x:.8g}") for x in row] for row in model.encode(TEXTS, batch_size=3).tolist()]


def main():
    torch.set_num_threads(1)
    tiny()
    out = {
        "made_by": "tests/oracles/encoder/encoder.py",
        "sentence_transformers": sentence_transformers.__version__,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "texts": TEXTS,
        "tiny": vectors(TINY),
        "tiny-mean": changed(2, {}),
        "tiny-cls": changed(2, {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}),
    }
    if len(sys.argv) > 1:
        out["minilm"] = vectors(sys.argv[1])
    (HERE / "vectors.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
