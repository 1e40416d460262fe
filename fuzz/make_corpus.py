"""Writes the good files of the corpus: `fuzz/corpus/<target>/<what>`.

    python3 -m venv .venv && .venv/bin/pip install numpy pillow pyarrow safetensors scipy zstandard
    cargo build -p veridical-cli && .venv/bin/python fuzz/make_corpus.py

The files of other programs come from numpy, Pillow, pyarrow, safetensors and the standard library, ours from
`veridical vectors convert`. They are committed: tests never run this. Files called `damaged-*` were found
by fuzzing and are left alone. Made with numpy 2.4.6, pyarrow 26.0.1, safetensors 0.8.0, Pillow 13.0.0.
"""

import gzip
import io
import json
import lzma
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
import zstandard
from PIL import Image
from safetensors.numpy import save

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parent / "target/debug/veridical"
ROWS = np.arange(15, dtype=np.float32).reshape(5, 3) / 4 - 1
NAMES = ["a", "bb", "\u00e9", "d d", '"e"']


def put(target, what, content):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / what).write_bytes(content)


def ours(target, what, name, *flags):
    """A table that veridical wrote."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "rows.csv", Path(folder) / name
        text = csv_text() if "title" in flags else plain_csv()
        source.write_text(text, encoding="utf-8")
        convert = [PROGRAM, "vectors", "convert", source, output, "--quiet", *flags]
        subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
        put(target, what, output.read_bytes())


def csv_text(separator=",", header=True):
    lines = [separator.join(["id", "title", "x", "y", "z"])] if header else []
    for i, row in enumerate(ROWS):
        title = '"' + NAMES[i].replace('"', '""') + '"'
        lines.append(separator.join([str(i + 7), title, *map(str, row)]))
    return "\n".join(lines) + "\n"


def plain_csv():
    lines = ["id,x,y,z"] + [",".join([str(i), *map(str, row)]) for i, row in enumerate(ROWS)]
    return "\n".join(lines) + "\n"


def table(vector, **columns):
    return pa.table({"id": pa.array(range(5)), "vector": vector, **columns})


def fixed(dtype=np.float32, nulls=False):
    item = pa.from_numpy_dtype(dtype)
    rows = [None if nulls and i == 2 else list(map(dtype, r)) for i, r in enumerate(ROWS)]
    return pa.array(rows, pa.list_(item, 3))


def lists(item=None, nulls=False):
    rows = [None if nulls and i == 1 else r.tolist() for i, r in enumerate(ROWS)]
    if nulls:
        rows[3][1] = None
    return pa.array(rows, item or pa.list_(pa.float32()))


def parquet(data, **options):
    out = io.BytesIO()
    pq.write_table(data, out, **options)
    return out.getvalue()


def ipc(data, stream):
    out = io.BytesIO()
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(out, data.schema) as writer:
        for batch in data.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    return out.getvalue()


def arrow_tables():
    title = pa.array(NAMES)
    words = title.dictionary_encode()
    tables = {
        "fixed": table(fixed(), title=title),
        "f64-nulls": table(fixed(np.float64, nulls=True), title=words),
        "lists": table(lists(), title=title),
        "lists-nulls": table(lists(nulls=True), title=title),
        "large-lists": table(lists(pa.large_list(pa.float64())), title=title),
        "text-ids": table(fixed()).set_column(0, "item_id", words),
    }
    for what, data in tables.items():
        put("arrow_file", what, ipc(data, stream=False))
        put("arrow_stream", what, ipc(data, stream=True))
        put("parquet", what, parquet(data, compression="none"))
        if "title" in data.column_names:
            put("parquet_kept", what, parquet(data, compression="none"))
    half = table(lists(pa.list_(pa.float16())), title=title)
    put("arrow_file", "f16", ipc(half, stream=False))
    for codec in ("snappy", "gzip", "brotli", "zstd", "lz4"):
        put("parquet", codec, parquet(tables["lists-nulls"], compression=codec))
    put("parquet", "v2", parquet(tables["lists"], data_page_version="2.0", version="2.6"))
    put("parquet", "groups", parquet(tables["fixed"], row_group_size=2))
    put("ids_parquet", "text", parquet(pa.table({"id": title})))
    put("ids_parquet", "integers", parquet(pa.table({"id": pa.array(range(5)), "x": title})))


def numpy_arrays():
    for what, array in {
        "f4": ROWS,
        "f8-fortran": np.asfortranarray(ROWS.astype("<f8")),
        "f2": ROWS.astype("<f2"),
        "nan": np.where(ROWS > 1, np.nan, ROWS),
    }.items():
        out = io.BytesIO()
        np.save(out, array)
        put("npy", what, out.getvalue())
    out = io.BytesIO()
    np.lib.format.write_array(out, ROWS, version=(3, 0))
    put("npy", "version-3", out.getvalue())


def tensors():
    put("safetensors", "vectors", save({"vectors": ROWS}))
    with_ids = {"vectors": ROWS.astype(np.float64), "ids": np.arange(5)}
    put("safetensors", "ids", save(with_ids, metadata={"made": "by hand"}))
    affine = {
        "from": np.array([0.5, -1]),
        "matrix": np.arange(6.0).reshape(2, 3),
        "to": np.zeros(3),
    }
    put("map", "two-by-three", save(affine, metadata={"kind": "ridge", "anchors": "40"}))
    put("safetensors", "other-names", save({"w": ROWS.astype(np.float16), "b": ROWS[0]}))


def texts():
    text, plain = csv_text(), plain_csv()
    put("csv", "plain", plain.encode())
    put("csv", "lists", b'id,vector\n1,"[0.5, 1]"\n2,"[2 3]"\n')
    put("csv", "windows", plain.replace("\n", "\r\n").encode("utf-8-sig"))
    put("csv", "bad-values", plain.replace(",0.5", ",nan").replace(",1.0", ",").encode())
    put("csv_kept", "titles", text.encode())
    put("csv_no_header", "numbers", b"1,2,3\n4,5,6\n7,8,9\n")
    put("csv_utf16", "little", plain.encode("utf-16"))
    put("csv_utf16", "big", ("\ufeff" + plain).encode("utf-16-be"))
    put("csv_shift_jis", "plain", plain.replace("x", "\u7532\u30a8").encode("shift_jis"))
    put("csv_gz", "plain", gzip.compress(plain.encode(), mtime=0))
    put(
        "csv_gz",
        "two-members",
        gzip.compress(b"id,x\n", mtime=0) + gzip.compress(b"1,2\n", mtime=0),
    )
    put("csv_xz", "plain", lzma.compress(plain.encode()))
    put("csv_zst", "plain", zstandard.compress(plain.encode()))
    put("tsv", "plain", plain.replace(",", "\t").encode())
    put("ids_lines", "text", "\n".join(NAMES).encode())
    put("ids_lines", "integers", b"1\n2\n3\n4\n5\n")
    put("ids_csv", "only", b"id\na\nb\nc\nd\ne\n")
    put("ids_csv", "among", csv_text().encode())


def written_by_us():
    title = ("--keep-columns", "title")
    ours("parquet", "ours", "o.parquet", *title)
    ours("parquet_kept", "ours", "o.parquet", *title, "--compression", "zstd")
    ours("arrow_file", "ours", "o.arrow", *title)
    ours("arrow_stream", "ours", "o.arrows", *title)
    ours("csv_kept", "ours", "o.csv", *title)
    ours("safetensors", "ours", "o.safetensors")
    ours("tsv", "ours", "o.tsv")
    ours("npy", "ours", "o.npy", "--drop-ids")


def words():
    oracles = HERE.parent / "tests/oracles/tables"
    for what in ("stored", "deflated", "fortran", "bfloat16"):
        put("npz", what, (oracles / f"{what}.npz").read_bytes())
    for what in ("objects", "fortran-deflated"):  # refused by name
        put("npz", f"damaged-{what}", (oracles / f"{what}.npz").read_bytes())
    put("word2vec_text", "gensim", (oracles / "gensim.vec").read_bytes())
    put("word2vec_binary", "gensim", (oracles / "gensim.bin").read_bytes())
    binary = gzip.compress((oracles / "gensim.bin").read_bytes(), mtime=0)
    put("word2vec_binary_gz", "gensim", binary)
    put("glove", "gensim", (oracles / "gensim.txt").read_bytes())
    put("glove", "header", (oracles / "gensim.vec").read_bytes())
    put("glove", "spaces", b". . . 0.1 0.2 0.3\nat name@domain 1 2 3\nx -1 -2 -3\n")
    index = b'{"metadata": {"total_size": 60}, "weight_map": {"vectors": "shard.safetensors"}}'
    put("safetensors_index", "one", index)
    for target, name in (("npz", "o.npz"), ("word2vec_text", "o.vec"),
                         ("word2vec_binary", "o.bin"), ("glove", "o.glove")):  # fmt: skip
        ours(target, "ours", name)


def specs():
    for what, flags in {
        "unit": ["--input-dim", "3", "--output-dim", "8"],
        "iid": ["--input-dim", "5", "--output-dim", "4", "--directions", "iid", "--seed", "7"],
        "standardize": ["--data", "rows.csv", "--normalize", "standardize"],
        "hadamard": ["--input-dim", "70", "--output-dim", "140", "--directions", "hadamard"],
        "halton": ["--input-dim", "4", "--output-dim", "12", "--directions", "halton"],
        "laplace": ["--input-dim", "4", "--output-dim", "12", "--kernel", "laplace"],
        "cauchy": ["--input-dim", "4", "--output-dim", "12", "--kernel", "cauchy"],
        "matern": ["--input-dim", "4", "--output-dim", "12", "--kernel", "matern-5/2"],
        "mixture": ["--input-dim", "4", "--output-dim", "12", "--mixture", "0.5:1,2:3"],
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "rows.csv").write_text(plain_csv())
            new = [PROGRAM, "featurize", "new", *flags, "--out", "spec.json", "--quiet"]
            subprocess.run(new, check=True, cwd=folder, stdout=subprocess.DEVNULL)
            put("spec", what, (Path(folder) / "spec.json").read_bytes())


def records():
    """Interactions, labels, edges and documents, as other programs write them."""
    rows = [(7, 3, 4.5, 100), (2, 1, 3.0, 90), (7, 1, 1.0, 110), (5, 9, 2.0, 95)]
    lines = lambda separator: "".join(separator.join(map(str, row)) + "\n" for row in rows)
    header = "userId,movieId,rating,timestamp\n"
    put("interactions_csv", "movielens", (header + lines(",")).encode())
    put("interactions_csv", "no-header", lines(",").encode())
    put(
        "interactions_csv",
        "text-ids",
        'user;item\nann;"a;b"\n"b ""b""";07\n\u00e9;a\n'.encode("utf-8-sig"),
    )
    put("interactions_csv_gz", "movielens", gzip.compress((header + lines(",")).encode(), mtime=0))
    put("interactions_dat", "movielens", lines("::").encode())
    put("interactions_dat", "latin-1", "1::caf\u00e9\n2::b\n".encode("latin-1"))
    put("interactions_text", "tabs", lines("\t").encode())
    put("interactions_text", "spaces", b"1 10\n1 11\n2 10\n")
    typed = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    put("interactions_inter", "recbole", (typed + lines("\t")).encode())
    user, item, rating, time = map(list, zip(*rows))
    seconds = pa.array([t * 1000 for t in time], pa.timestamp("ms"))
    tables = {
        "plain": pa.table({"user": user, "item": item, "rating": rating, "time": time}),
        "types": pa.table({
            "user_id": pa.array(list(map(str, user))).dictionary_encode(),
            "item_id": pa.array(item, pa.uint32()),
            "rating": pa.array(rating, pa.float32()),
            "timestamp": seconds,
        }),
        "pairs": pa.table({"user": pa.array(["a", "b"], pa.large_string()), "item": pa.array([1, 2], pa.int16())}),
    }  # fmt: skip
    for what, data in tables.items():
        put("interactions_parquet", what, parquet(data, compression="none"))
        put("interactions_arrow", what, ipc(data, stream=False))
        put("interactions_arrow", what + "-stream", ipc(data, stream=True))
    matrix = scipy.sparse.coo_matrix((rating, (user, item)), shape=(10, 10))
    for what, form in (("csr", matrix.tocsr()), ("csc", matrix.tocsc()), ("coo", matrix)):
        for compressed in (False, True):
            out = io.BytesIO()
            scipy.sparse.save_npz(out, form, compressed=compressed)
            name = what + ("-deflated" if compressed else "")
            put("interactions_npz", name, out.getvalue())
            put("edges_npz", name, out.getvalue())
    out = io.BytesIO()
    scipy.sparse.save_npz(out, matrix.todia())
    put("interactions_npz", "damaged-dia", out.getvalue())  # refused by name

    put(
        "labels_dat",
        "movies",
        "1::Toy Story (1995)::Animation|Comedy\n2::Caf\u00e9::Drama\n9::C::Comedy\n".encode(
            "latin-1"
        ),
    )
    put("labels_csv", "pairs", b"movieId,genre\n1,Comedy\n1,Drama\n2,Drama\n77,Drama\n")
    put("labels_csv", "lists", b"title,id,genres\nA,1,Comedy|Drama\nB,2,\nC,3,Drama\n")
    genres = pa.array([["b", "a"], [], None, ["a"]])
    put(
        "labels_parquet",
        "lists",
        parquet(pa.table({"id": [1, 2, 3, 4], "genres": genres}), compression="none"),
    )
    put("labels_triples", "kg", b"1\tgenre\ta\n1\tactor\tx\n2\tgenre\ta\n3\tgenre\tb\n")
    put("edges_csv", "weights", b"source,target,weight\n1,2,0.5\n2,1,1\n3,3,1\n4,99,1\n5,4,2\n")
    put("edges_csv", "bare", b"1,2\n2,3\n9,0\n")
    put("text_lines", "plain", "One film, don't miss it.\n\nA caf\u00e9<br />two FILMS\n".encode())
    put("text_csv", "reviews", b'label,id,text\n0,a,"One, two"\n1,b,"three<br /><br />it\'s"\n')
    put("text_csv", "repeated-ids", b"id,review\n1,one\n1,two\n")


def tokenizers():
    """Vocabularies as Hugging Face's tokenizers writes them."""
    special = [{"id": i, "content": word, "single_word": i == 2, "lstrip": i == 1, "rstrip": i == 2,
                "normalized": i == 0, "special": True} for i, word in enumerate(["[UNK]", "[CLS]", "[SEP]"])]  # fmt: skip
    words = ["[UNK]", "[CLS]", "[SEP]", "a", "##b", "the", "film", "\u00e9", "\u4e2d", "!"]
    around = {
        name: {"id": name, "ids": [i], "tokens": [name]} for i, name in ((1, "[CLS]"), (2, "[SEP]"))
    }
    piece = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    wordpiece = {
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]")],
            "special_tokens": around,
        },
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 10, "vocab": {word: i for i, word in enumerate(words)}},
    }  # fmt: skip
    put("tokenizer_json", "wordpiece", json.dumps(wordpiece).encode())
    tokens = ["<s>", "</s>", "a", "b", "t", "h", "e", "\u0120", "th", "the", "\u0120the", "<unk>"]
    bpe = {
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "ignore_merges": True,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": ["t h", ["th", "e"], "\u0120 the"]},
    }  # fmt: skip
    put("tokenizer_json", "bpe", json.dumps(bpe).encode())
    put("tokenizer_list", "words", "\n".join(words).encode() + b"\n")


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def picture(array, kind, **options):
    out = io.BytesIO()
    Image.fromarray(array).save(out, kind, **options)
    return out.getvalue()


def images():
    """Examples for networks."""
    grey = (np.arange(6 * 4 * 4, dtype=np.uint8) * 5 % 251).reshape(6, 4, 4)
    colour = (np.arange(4 * 4 * 3, dtype=np.uint8) * 7 % 251).reshape(4, 4, 3)
    labels = np.array([0, 1, 2, 0, 1, 2], np.uint8)
    put("idx_images", "grey", idx(grey))
    put("idx_images", "colour", idx(np.stack([grey] * 3, axis=-1)))
    put("idx_images_gz", "grey", gzip.compress(idx(grey), mtime=0))
    put("idx_labels", "three-classes", idx(labels))
    pixels = (np.arange(3072) % 251).astype(np.uint8).tobytes()
    # Records are long, and a mutation hardly ever meets a label.
    for what, labels in {
        "two": [0, 1],
        "three": [0, 1, 2],
        "damaged-label": [0, 112],
        "damaged-gap": [0, 2],
    }.items():
        put("cifar_10", what, b"".join(bytes([c]) + pixels for c in labels))
        put("cifar_100", what, b"".join(bytes([7, c]) + pixels for c in labels))
    put("sheet", "colour", picture(colour.repeat(4, axis=1)[:, :16], "PNG"))
    put("sheet", "grey", picture(colour[:, :, 0].repeat(4, axis=1), "PNG"))
    put("sheet_labels", "three-classes", b"[0, 1, 2, 1]")
    put("png", "grey", picture(grey[0], "PNG"))
    palette = Image.fromarray(colour).convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    put("png", "damaged-palette", picture(np.asarray(palette.convert("RGBA")), "PNG"))
    put("png", "opaque", picture(np.dstack([grey[0], np.full((4, 4), 255, np.uint8)]), "PNG"))
    put("jpeg", "colour", picture(colour, "JPEG"))
    put("jpeg", "progressive", picture(colour, "JPEG", progressive=True))
    put("jpeg", "damaged-grey", picture(grey[0], "JPEG"))  # refused beside colours
    text = 'a,"b c",y\n1,0.5,red\n-2,1e3,"blue"\n3,4,red\n'
    put("rows_csv", "text", text.encode())
    put("rows_csv", "integers", b"a;y;b\n1;3;2\n2;10;5\n")
    put("rows_numbers", "plain", b"x,y,z\n1,2,3\n4,5.5,6\n")
    rows = {"a": [1, 2, 3], "b": [0.5, 1.5, -1.0], "y": ["u", "v", "u"]}
    put("rows_parquet", "text", parquet(pa.table(rows), compression="none"))
    rows["y"] = pa.array(["u", "v", "u"]).dictionary_encode()
    put("rows_parquet", "dictionary", parquet(pa.table(rows), compression="snappy"))


def forms():
    """Tables of other libraries that are read without flags: `crates/io/tests/forms/make.py`."""
    folder = HERE.parent / "crates/io/tests/forms"
    for target, kind, names in [
        ("parquet", "parquet", ["pandas_index_level", "pandas_unnamed", "polars_struct"]),
        ("parquet", "parquet", ["polars_u64", "pyarrow_u64_no_statistics", "pyarrow_binary16"]),
        ("parquet", "parquet", ["pandas_float_id", "spark_vector"]),
        ("arrow_file", "arrow", ["polars_u64", "polars_wide"]),
        ("npy", "npy", ["numpy_big_f2", "numpy_int16", "numpy_int8"]),
        ("npz", "npz", ["numpy_u64"]),
        ("csv", "csv", ["pandas_index", "pandas_matrix", "postgres_array", "shuffled"]),
        ("csv", "csv", ["list_pipe", "semicolon", "warehouse"]),
    ]:
        for name in names:
            put(target, name.replace("_", "-"), (folder / f"{name}.{kind}").read_bytes())


if __name__ == "__main__":
    forms()
    images()
    records()
    arrow_tables()
    numpy_arrays()
    tensors()
    texts()
    written_by_us()
    words()
    specs()
    tokenizers()
