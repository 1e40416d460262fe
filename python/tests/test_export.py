"""`veridical featurize export`: the exported map is the map of `featurize apply`.

The binary is VERIDICAL_BIN, or target/debug/veridical. Tests of TensorFlow are skipped, with the
reason, where it cannot be imported.
"""

import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("VERIDICAL_BIN", ROOT / "target/debug/veridical")).resolve()
sys.path.insert(0, str(ROOT / "python/reference"))
import veridical_reference as reference

PARITY = 2e-6

# d, D, flags of `featurize new`; add a line for a new family or kernel.
SPECS = [
    (3, 8, "--normalize none --directions iid"),
    (3, 64, "--normalize unit --directions orthogonal"),
    (16, 40, "--normalize standardize --directions orthogonal"),
    (64, 256, "--normalize unit --directions orthogonal --length-scale 0.5"),
    (100, 34, "--normalize standardize --directions iid --length-scale 2"),
    (256, 1024, "--normalize unit --directions iid"),
    (300, 70, "--normalize none --directions orthogonal --length-scale 20"),
    (384, 512, "--normalize standardize --directions orthogonal --length-scale 20"),
    (768, 1536, "--normalize unit --directions orthogonal"),
    (20, 128, "--normalize none --directions halton"),
    (48, 256, "--normalize unit --directions hadamard"),
    (384, 1024, "--normalize unit --directions hadamard"),
    (30, 128, "--normalize unit --kernel laplace --length-scale 5"),
    (30, 128, "--normalize standardize --kernel cauchy"),
    (64, 256, "--normalize unit --kernel matern-3/2 --directions hadamard"),
    (64, 256, "--normalize unit --mixture 0.5:1,1:2,2:1"),
]
# The same with rows and length scales that take |u.h| to 100.
WIDE_ANGLES = [
    (3, 64, "--normalize none --directions iid --length-scale 0.03"),
    (16, 64, "--normalize unit --directions orthogonal --length-scale 0.04"),
    (128, 64, "--normalize unit --directions orthogonal --length-scale 0.04"),
    (256, 64, "--normalize unit --directions iid --length-scale 0.04"),
    (300, 600, "--normalize unit --directions iid --length-scale 0.04"),
    (768, 64, "--normalize unit --directions orthogonal --length-scale 0.04"),
    (1024, 64, "--normalize unit --directions iid --length-scale 0.04"),
    (128, 512, "--normalize unit --directions hadamard --length-scale 0.04"),
    (768, 4096, "--normalize unit --directions hadamard --length-scale 0.045"),
]


def name_of(spec):
    flags = spec[2].replace("--", "").replace("/", "").replace(" ", "-")
    return f"{spec[0]}-{spec[1]}-{flags}"


def veridical(folder, *arguments):
    command = [BINARY, "--quiet", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Case:
    """A spec, rows and the phi of `featurize apply`, in their own folder."""

    def __init__(self, folder, spec, unit_rows=False):
        self.folder = folder
        self.d, self.D, flags = spec
        rng = np.random.default_rng(7)
        rows = rng.standard_normal((1000, self.d))
        if "standardize" in flags:
            rows = rows * rng.uniform(0.1, 10, self.d) + rng.uniform(-5, 5, self.d)
        if unit_rows:
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        elif "unit" in flags:
            rows[:8] *= 10.0 ** np.arange(-40, 40, 10)[:, None]  # subnormal to almost overflow
        rows[11] = 0
        self.rows = rows.astype(np.float32)
        np.save(folder / "rows.npy", self.rows)
        veridical(
            folder,
            *f"featurize new --data rows.npy --output-dim {self.D} --out spec.json".split(),
            *flags.split(),
            *([] if "length-scale" in flags else ["--length-scale", "1"]),
        )
        self.phi = self.apply()

    def normalized(self):
        rows = self.rows.astype(np.float64)
        spec = json.loads((self.folder / "spec.json").read_text())
        if spec["normalize"] == "standardize":
            return (rows - spec["means"]) / spec["deviations"]
        if spec["normalize"] == "unit":
            return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-150)
        return rows

    def apply(self, *flags):
        line = ["featurize", "apply", "--spec", "spec.json", "rows.npy", "phi.npy", "--force"]
        veridical(self.folder, *line, *flags)
        return np.load(self.folder / "phi.npy")

    def export(self, out, *flags):
        veridical(self.folder, *f"featurize export --spec spec.json --out {out}".split(), *flags)
        return self.folder / out


@pytest.fixture(params=SPECS, ids=name_of)
def case(request, tmp_path):
    return Case(tmp_path, request.param)


@pytest.fixture(params=WIDE_ANGLES, ids=name_of)
def wide(request, tmp_path):
    case = Case(tmp_path, request.param, unit_rows=True)
    spec = json.loads((tmp_path / "spec.json").read_text())
    u = export_directions(case)
    angles = np.abs(case.rows.astype(np.float64) @ u.T.astype(np.float64))
    assert 70 < angles.max() < 140, "the case is made for angles of about 100"
    assert spec["length_scale"] < 1
    return case


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    kinds = {"F32": "<f4", "F64": "<f8"}
    tensors = {}
    for name, entry in header.items():
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[start:end], kinds[entry["dtype"]]).reshape(
            entry["shape"]
        )
    return tensors, metadata


def export_directions(case):
    return read_safetensors(case.export("u.safetensors"))[0]["directions"]


# ONNX


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(model, rows):
    (features,) = model.run(["features"], {"vector": rows})
    assert features.dtype == np.float32
    return features


def check_batches(compute, rows, phi, tolerance=PARITY):
    """The largest difference over batches of 1, 7 and 1,000 rows; also tests an empty batch."""
    largest = 0.0
    for n in (1, 7, 1000):
        for start in range(0, min(5 * n, len(rows)), n):
            batch, want = rows[start : start + n], phi[start : start + n]
            got = compute(batch)
            assert got.shape == want.shape
            largest = max(largest, np.abs(got - want).max())
    assert compute(rows[:0]).shape == (0, phi.shape[1])
    assert largest <= tolerance, f"{largest:.2e} above {tolerance:.2e}"
    return largest


def test_onnx_gives_the_phi_of_apply(case):
    path = case.export("phi.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    model = session(path)
    check_batches(lambda rows: run(model, rows), case.rows, case.phi)


def test_onnx_gives_the_phi_of_apply_with_angles_up_to_100(wide):
    model = session(wide.export("phi.onnx"))
    check_batches(lambda rows: run(model, rows), wide.rows, wide.phi)


def test_onnx_carries_the_spec(tmp_path):
    case = Case(tmp_path, SPECS[2])
    model = onnx.load(case.export("phi.onnx"))
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert properties["veridical.spec"] == (tmp_path / "spec.json").read_text()
    assert (model.producer_name, model.opset_import[0].version) == ("veridical", 17)
    assert json.loads(properties["veridical.spec"])["spec_id"] in model.doc_string
    (vector,), (features,) = model.graph.input, model.graph.output
    dims = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in
            (vector, features)]  # fmt: skip
    assert dims == [["batch", 16], ["batch", 40]]


@pytest.mark.parametrize("spec", [SPECS[3], SPECS[6]], ids=name_of)
def test_onnx_with_directions_beside_it_is_the_same_model(tmp_path, spec):
    case = Case(tmp_path, spec)
    inside = run(session(case.export("inside.onnx")), case.rows)
    path = case.export("beside.onnx", "--external-data")
    onnx.checker.check_model(str(path), full_check=True)
    assert path.stat().st_size < 10_000
    assert (tmp_path / "beside.onnx.data").stat().st_size >= 2 * case.d * case.D
    assert np.array_equal(run(session(path), case.rows), inside)


def test_onnx_of_a_prefix_is_the_rescaled_prefix(tmp_path):
    case = Case(tmp_path, SPECS[3])
    phi = case.apply("--output-dim", "100")
    model = session(case.export("prefix.onnx", "--output-dim", "100"))
    check_batches(lambda rows: run(model, rows), case.rows, phi)
    rescaled = case.phi[:, :100] * math.sqrt(256 / 100)
    assert np.abs(run(model, case.rows) - rescaled).max() <= PARITY


# Maps of `align` before phi


def aligned(case, *flags):
    """Rows in a rotated frame, and the phi of `align` followed by `featurize apply`."""
    rng = np.random.default_rng(8)
    rows = np.random.default_rng(9).standard_normal((1000, case.d)).astype(np.float32)
    turn = np.linalg.qr(rng.standard_normal((case.d, case.d)))[0]
    np.save(case.folder / "reference.npy", rows)
    np.save(case.folder / "turned.npy", (rows @ turn).astype(np.float32))
    files = "turned.npy --out aligned.npy --drop-ids --map map.safetensors --onnx map.onnx"
    veridical(case.folder, "align", "--reference", "reference.npy", *files.split(), *flags)
    line = "featurize apply --spec spec.json aligned.npy aligned-phi.npy"
    veridical(case.folder, *line.split())
    return np.load(case.folder / "turned.npy"), np.load(case.folder / "aligned-phi.npy")


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[3], SPECS[6], SPECS[11]], ids=name_of)
def test_a_rotation_before_phi_costs_no_node(tmp_path, spec):
    case = Case(tmp_path, spec)
    turned, phi = aligned(case)
    path = case.export("with.onnx", "--map", "map.safetensors")
    onnx.checker.check_model(str(path), full_check=True)
    model = session(path)
    check_batches(lambda rows: run(model, rows), turned, phi, 1e-5)
    operations = [
        [node.op_type for node in onnx.load(each).graph.node]
        for each in (path, case.export("without.onnx"))
    ]
    assert operations[0] == operations[1]


@pytest.mark.parametrize(
    ("spec", "flags"),
    [(SPECS[3], ["--center"]), (SPECS[2], []), (SPECS[6], ["--method", "ridge"])],
    ids=["center", "standardize", "ridge"],
)
def test_other_maps_are_a_product_before_phi(tmp_path, spec, flags):
    case = Case(tmp_path, spec)
    turned, phi = aligned(case, *flags)
    path = case.export("with.onnx", "--map", "map.safetensors")
    onnx.checker.check_model(str(path), full_check=True)
    model = session(path)
    check_batches(lambda rows: run(model, rows), turned, phi, 1e-5)
    operations = [node.op_type for node in onnx.load(path).graph.node]
    assert operations[:5] == ["Cast", "Sub", "MatMul", "Add", "Cast"]


def test_the_onnx_of_a_map_is_the_map(tmp_path):
    case = Case(tmp_path, SPECS[3])
    turned, _ = aligned(case, "--scale", "--center")
    path = tmp_path / "map.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    (got,) = session(path).run(["aligned"], {"vector": turned})
    # Both sum in f64 and round once to f32; values below 8.
    assert np.abs(got - np.load(tmp_path / "aligned.npy")).max() <= 8 * 2**-23


# TensorFlow


@pytest.fixture(scope="session")
def tensorflow():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    try:
        import tensorflow
    except (ImportError, OSError, TypeError, AttributeError) as error:
        pytest.skip(f"TensorFlow cannot be imported: {error}")
    return tensorflow


def served(tensorflow, path):
    loaded = tensorflow.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]

    def compute(rows):
        outputs = function(vector=tensorflow.constant(rows))
        assert list(outputs) == ["features"]
        return outputs["features"].numpy()

    compute.loaded = loaded  # the function is valid only as long as the model lives
    return compute


def test_saved_model_gives_the_phi_of_apply(tensorflow, case):
    path = case.export("model", "--to", "saved-model")
    # TensorFlow flushes subnormal singles to 0; row 0 may consist of them. Directions of laplace
    # have heavy tails, and so have the angles.
    angle = np.abs(case.normalized() @ export_directions(case).T.astype(np.float64)).max()
    tolerance = max(PARITY, rounding(case.d, case.D, angle))
    check_batches(served(tensorflow, path), case.rows[1:], case.phi[1:], tolerance)
    assert (path / "assets.extra/spec.json").read_text() == (case.folder / "spec.json").read_text()


def rounding(d, D, angle):
    """Five standard deviations of d roundings of a sum of size `angle`, and the sine's last places:
    what another order of summation may change (docs/serving.md)."""
    return (5 * math.sqrt(d) * 2.0**-24 * angle + 2.0**-22) / math.sqrt(D / 2)


# TensorFlow sums in its own order, so at angles of 100 the rounding dominates: below 2e-6 only
# where D is large compared with d.
@pytest.mark.parametrize("d, D, tolerance", [(3, 256, PARITY), (16, 4096, PARITY),
                                             (128, 512, None), (768, 64, None)])  # fmt: skip
def test_saved_model_with_angles_up_to_100_is_within_its_rounding(
    tensorflow, tmp_path, d, D, tolerance
):
    flags = "--normalize unit --directions orthogonal --length-scale 0.04"
    case = Case(tmp_path, (d, D, flags), unit_rows=True)
    path = case.export("model", "--to", "saved-model")
    check_batches(served(tensorflow, path), case.rows, case.phi, tolerance or rounding(d, D, 128.0))


def test_saved_model_of_a_prefix(tensorflow, tmp_path):
    case = Case(tmp_path, SPECS[3])
    phi = case.apply("--output-dim", "100")
    path = case.export("model", "--to", "saved-model", "--output-dim", "100")
    check_batches(served(tensorflow, path), case.rows[1:], phi[1:])


@pytest.mark.parametrize("flags", [[], ["--center"]], ids=["rotation", "center"])
def test_saved_model_after_a_map(tensorflow, tmp_path, flags):
    case = Case(tmp_path, SPECS[3])
    turned, phi = aligned(case, *flags)
    path = case.export("model", "--to", "saved-model", "--map", "map.safetensors")
    check_batches(served(tensorflow, path), turned, phi, 1e-5)


# U and the conformance folder


@pytest.mark.parametrize("spec", SPECS[:3], ids=name_of)
def test_safetensors_hold_the_directions_of_the_reference(tmp_path, spec):
    case = Case(tmp_path, spec)
    tensors, metadata = read_safetensors(case.export("u.safetensors"))
    document = reference.parse_spec(metadata["veridical.spec"])
    want = np.array(reference.directions(document), np.float32)
    assert np.array_equal(tensors.pop("directions"), want)
    columns = {"means", "deviations"} if document["normalize"] == "standardize" else set()
    assert set(tensors) == columns
    for name in columns:
        assert tensors[name].tolist() == document[name]


@pytest.mark.parametrize("spec", [*SPECS[:5], WIDE_ANGLES[0]], ids=name_of)
def test_the_conformance_folder_equals_the_reference_bit_for_bit(tmp_path, spec):
    folder = Case(tmp_path, spec).export("conformance", "--to", "conformance")
    document = reference.parse_spec((folder / "spec.json").read_text())
    arrays = {name: np.load(folder / f"{name}.npy") for name in ("inputs", "directions", "phi")}
    for name, array in arrays.items():
        stored = json.loads((folder / f"{name}.json").read_text())
        assert (stored["schema"], stored["array"]) == ("veridical.conformance/1", name)
        assert stored["shape"] == list(array.shape)
        assert np.array_equal(np.array(stored["values"], np.float64).astype(np.float32), array)
        bits = [[int(x, 16) for x in row] for row in stored["bits"]]
        assert np.array_equal(np.array(bits, np.uint32).view(np.float32), array)
    u = reference.directions(document)
    assert np.array_equal(np.array(u, np.float32), arrays["directions"])
    names = json.loads((folder / "inputs.json").read_text())["rows"]
    assert {"zero", "first unit vector", "tiny", "huge", "normal 7"} <= set(names)
    for row, phi in zip(arrays["inputs"].tolist(), arrays["phi"], strict=True):
        want = np.array(reference.phi(document, row, u), np.float32)
        assert np.array_equal(want.view(np.uint32), phi.view(np.uint32))


@pytest.mark.parametrize("spec", [*SPECS[:4], *WIDE_ANGLES[:3]], ids=name_of)
def test_double_precision_is_within_the_tolerances_of_the_conformance_folder(tmp_path, spec):
    folder = Case(tmp_path, spec).export("conformance", "--to", "conformance")
    document = json.loads((folder / "spec.json").read_text())
    x, u, phi = (
        np.load(folder / f"{n}.npy").astype(float) for n in ("inputs", "directions", "phi")
    )
    if document["normalize"] == "unit":
        norms = np.linalg.norm(x, axis=1, keepdims=True)
        x = x / np.where(norms == 0, 1, norms)
    if document["normalize"] == "standardize":
        x = (x - document["means"]) / document["deviations"]
    angles = x.astype(np.float32).astype(float) @ u.T
    want = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(phi.shape)
    want /= math.sqrt(document["output_dim"] / 2)
    stored = json.loads((folder / "phi.json").read_text())
    worst = np.abs(want - phi).max(axis=1)
    assert np.all(worst <= stored["tolerances"]), dict(zip(stored["rows"], worst, strict=True))


def test_a_large_conformance_folder_has_no_json_of_it(tmp_path):
    folder = Case(tmp_path, SPECS[5]).export("conformance", "--to", "conformance")
    assert not (folder / "directions.json").exists()
    assert (folder / "phi.json").exists()
    assert np.load(folder / "directions.npy").shape == (512, 256)


def test_exports_have_the_same_bytes_for_any_number_of_threads(tmp_path):
    case = Case(tmp_path, SPECS[6])
    outs = [("phi.onnx",), ("u.safetensors",), ("model", "--to", "saved-model"),
            ("conformance", "--to", "conformance")]  # fmt: skip
    for out, *flags in outs:
        path = case.export(out, *flags, "--threads", "1")

        def content(path=path):
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            return {str(file): file.read_bytes() for file in files if file.is_file()}

        before = content()
        case.export(out, *flags, "--threads", "3", "--force")
        assert content() == before
