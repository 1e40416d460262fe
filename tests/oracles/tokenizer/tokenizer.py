"""Ids that Hugging Face's tokenizers gives nasty texts, for crates/data/src/text/tokenizer/tests.rs.

    python tests/oracles/tokenizer/tokenizer.py [FOLDER of MiniLM]

Writes beside itself: `wordpiece/tokenizer.json` and `bpe/tokenizer.json`, trained here on the texts below;
`list/vocab.txt` with its configuration, cased; `ids.json` with texts and ids. With MiniLM's folder also its ids.
Random texts hold characters only whose category is the same in Unicode 3.2 and today: tokenizers has tables of
Unicode 8.
"""

import json
import random
import sys
import unicodedata
from pathlib import Path

import tokenizers
import transformers
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

HERE = Path(__file__).parent

TEXTS = [
    "",
    " ",
    " \t\n\u00a0\u3000 ",
    "The quick brown fox jumps over the lazy dog.",
    "  leading and   many    spaces  \n\n at the end   ",
    "Ångström café naïve façade Übermut ÀÉÎÕÜ",
    "e\u0301 decomposed, o\u0308, a\u0323\u0302",
    "İstanbul ISPARTA ıslak straße STRASSE ΟΔΥΣΣΕΥΣ ς",
    "中文字符 and 日本語 テキスト, 한국어 텍스트",
    "𠀀𠀁 outside the basic plane 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬁ ﬂ",
    "emoji 😀 👩‍👩‍👧‍👦 🇩🇪 ❤️ done",
    "control\u0000 \u0001char\u007facters\u0085 zero\u200bwidth \ufeffbom soft\u00adhyphen",
    "private \ue000 replacement \ufffd line\u2028sep para\u2029sep",
    "a" * 100,
    "b" * 101,
    "x" * 99 + "é",
    "supercalifragilisticexpialidocious" * 20,
    "don't we'll they've I'm you're he'd it's DON'T WE'LL 'tis ' s",
    "price: $3.99 + 5% = £4.19 (≈ €5) ^_^ `code` ~tilde~ a_b-c/d\\e|f",
    "“quotes” ‘single’ – dash — em… ¿qué? ¡sí! 。、「」 ، ؟",
    "½ ² Ⅷ ① ٣ 1234567890 3.14e-10 0x1F",
    "[SEP] hidden [CLS] in text[MASK]x [UNK] [sep] [PAD]",
    "<s> and </s> around  <mask> and<mask>word <unk>",
    "العَرَبِيَّة עברית हिन्दी ไทย ქართული",
    "<br />HTML &amp; tags</p>",
    "tab\tand\r\nnew line\rcarriage",
    "newtoken beside NewToken and anewtoken",
    "unseen: ψ Ж ☃ \u0378",
]


def random_texts(n):
    draw = random.Random(7)
    old = unicodedata.ucd_3_2_0
    stable = [
        chr(c)
        for c in range(0x110000)
        if not 0xD800 <= c < 0xE000
        and unicodedata.category(chr(c)) != "Cn"
        and old.category(chr(c)) == unicodedata.category(chr(c))
        and old.decomposition(chr(c)) == unicodedata.decomposition(chr(c))
    ]
    low = [c for c in stable if ord(c) < 0x600]
    common = "etaoin shrdlu .,'\n-019   "
    pools = [stable, low, common, common]
    return [
        "".join(draw.choice(draw.choice(pools)) for _ in range(draw.randrange(1, 40)))
        for _ in range(n)
    ]


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=420, special_tokens=specials, limit_alphabet=260, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS[:-1] * 2, trainer)
    tokenizer.add_tokens([AddedToken("NewToken", single_word=True, normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def bpe():
    """As RoBERTa: the mask takes the spaces before it, the others are looked for in the normalised text."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[
            AddedToken(name, normalized=True, lstrip=name == "<mask>") for name in names
        ],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 2, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    return tokenizer


def cased_list():
    """A list of words, as BERT's first models have it: cased, accents kept, ideographs not apart."""
    folder = HERE / "list"
    folder.mkdir(exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({c for text in TEXTS for c in text if c.isalpha() and ord(c) < 0x250})
    words += letters + ["##" + c for c in letters]
    words += list(".,'-()%$?!") + [
        "The",
        "the",
        "qu",
        "##ick",
        "##own",
        "fox",
        "中文字符",
        "##日",
        "caf",
        "##é",
    ]
    words = list(dict.fromkeys(words))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    config = {
        "do_lower_case": False,
        "tokenize_chinese_chars": False,
        "tokenizer_class": "BertTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    return transformers.BertTokenizerFast(
        str(folder / "vocab.txt"), do_lower_case=False, tokenize_chinese_chars=False
    )._tokenizer


def main():
    texts = TEXTS + random_texts(150)
    out = {
        "made_by": "tests/oracles/tokenizer/tokenizer.py",
        "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__,
        "texts": texts,
        "limit": 8,
        "models": {},
    }
    prefixed = bpe()
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    found = {"wordpiece": wordpiece(), "bpe": bpe(), "bpe-prefix": prefixed, "list": cased_list()}
    for name in ["wordpiece", "bpe", "bpe-prefix"]:
        (HERE / name).mkdir(exist_ok=True)
        found[name].save(str(HERE / name / "tokenizer.json"), pretty=False)
    if len(sys.argv) > 1:
        found["minilm"] = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
    for name, tokenizer in found.items():
        tokenizer.no_truncation()
        tokenizer.no_padding()
        whole = [tokenizer.encode(text).ids for text in texts]
        tokenizer.enable_truncation(out["limit"])
        cut = [tokenizer.encode(text).ids for text in texts]
        out["models"][name] = {"whole": whole, "cut": cut}
    (HERE / "ids.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
