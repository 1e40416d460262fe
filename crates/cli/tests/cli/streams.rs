//! Arrow IPC on stdin and stdout.

use veridical::features::FeatureSpec;
use veridical_io::GROUP_ROWS;

use crate::common::*;

/// `t.parquet` of two batches and a remainder, `spec.json` for it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put_table("t.parquet", &named_rows(2 * GROUP_ROWS + 500, 3));
    sandbox.put("spec.json", FeatureSpec::params(3, 8).build().unwrap().to_json());
    sandbox
}

#[test]
fn a_pipe_of_three_gives_what_three_files_give() {
    let sandbox = sandbox();
    let piped = sandbox.shell(
        "set -o pipefail
         veridical vectors convert t.parquet - |
         veridical featurize apply --spec spec.json - - |
         veridical vectors convert - piped.parquet",
    );
    assert_eq!(piped.code, Some(0), "{piped:?}");
    sandbox.ok("featurize apply --spec spec.json t.parquet phi.parquet");
    sandbox.ok("vectors convert phi.parquet filed.parquet");
    assert!(sandbox.bytes("piped.parquet") == sandbox.bytes("filed.parquet"));
}

#[test]
fn a_stream_gives_the_bytes_that_the_file_gives() {
    let sandbox = sandbox();
    sandbox.ok("featurize apply --spec spec.json t.parquet filed.parquet");
    let outcome = sandbox.shell(
        "veridical vectors convert t.parquet - > t.arrows &&
         veridical featurize apply --spec spec.json - piped.parquet < t.arrows &&
         veridical featurize apply --spec spec.json t.arrows named.parquet",
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(sandbox.bytes("piped.parquet") == sandbox.bytes("filed.parquet"));
    assert!(sandbox.bytes("named.parquet") == sandbox.bytes("filed.parquet"));
}

#[test]
fn an_arrow_file_may_come_through_stdin_from_another_writer() {
    let sandbox = Sandbox::new();
    let batch = batch(vec![("id", numbers(2)), ("v", lists(&[&[1.0, 2.0], &[3.0, 4.0]]))]);
    let mut stream = Vec::new();
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch.slice(0, 0)).unwrap(); // a batch without rows does not end the stream
    writer.write(&batch.slice(1, 1)).unwrap();
    writer.finish().unwrap();
    sandbox.put("t.arrows", stream);
    let outcome = sandbox.shell("veridical vectors convert - out.csv < t.arrows");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(sandbox.text("out.csv"), "id,v0,v1\n0,1,2\n1,3,4\n1,3,4\n");
}

#[test]
fn stdout_carries_the_table_and_nothing_else() {
    let sandbox = sandbox();
    let outcome =
        sandbox.shell("veridical featurize apply --spec spec.json t.parquet - > phi.arrows");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("131572 rows, 3 -> 8, written to -"), "{outcome:?}");
    assert_eq!(sandbox.table("phi.arrows").n_rows(), 2 * GROUP_ROWS + 500);
}

#[test]
fn a_stream_cannot_be_resumed_or_cut_into_parts() {
    let sandbox = sandbox();
    sandbox.refuses(
        "featurize apply --spec spec.json t.parquet - --resume",
        "a stream cannot be resumed; write to a file instead of `-`",
    );
    sandbox.refuses(
        "vectors convert t.parquet - --rows-per-part 10",
        "--rows-per-part needs a folder to write to, not `-`",
    );
}

#[test]
fn a_stream_cannot_give_the_length_scale() {
    let sandbox = sandbox();
    let outcome = sandbox.shell(
        "veridical vectors convert t.parquet - 2>/dev/null | veridical -q featurize apply - phi.parquet",
    );
    assert_eq!(outcome.code, Some(2));
    assert_eq!(
        outcome.only_error(),
        "a stream can be read only once, so the length scale cannot be chosen from it; pass --spec"
    );
    assert!(!sandbox.has("phi.parquet") && !sandbox.has("phi.parquet.partial"));
}

/// Runs `convert - out.csv` on some bytes.
fn convert(sandbox: &Sandbox, stream: &[u8]) -> Outcome {
    sandbox.put("stream", stream);
    sandbox.shell("veridical -q vectors convert - out.csv < stream")
}

#[test]
fn a_truncated_stream_is_refused() {
    let sandbox = sandbox();
    sandbox.shell("veridical vectors convert t.parquet - > t.arrows");
    let whole = sandbox.bytes("t.arrows");
    let n = whole.len();
    for len in [0, 1, 7, 100, n / 4, n / 2, n - n / 4, n - 500, n - 9] {
        let outcome = convert(&sandbox, &whole[..len]);
        assert_eq!(outcome.code, Some(2), "{len} {outcome:?}");
        let error = outcome.only_error();
        assert!(error.starts_with("-: not a readable Arrow IPC file: "), "{len} {error}");
        assert!(!sandbox.has("out.csv") && !sandbox.has("out.csv.partial"), "{len}");
    }
    assert_eq!(convert(&sandbox, &whole).code, Some(0));
}

/// A sender that dies between two batches leaves a stream that looks whole but for its last eight
/// bytes, the mark of its end. Without them nobody knows whether rows are missing.
#[test]
fn a_stream_that_ends_between_two_batches_is_refused() {
    let sandbox = sandbox();
    sandbox.shell("veridical vectors convert t.parquet - > t.arrows");
    let whole = sandbox.bytes("t.arrows");
    let n = whole.len();
    assert_eq!(whole[n - 8..], [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
    for len in [n - 8, n - 4] {
        let outcome = convert(&sandbox, &whole[..len]);
        assert_eq!(outcome.code, Some(2), "{len} {outcome:?}");
        assert!(!sandbox.has("out.csv") && !sandbox.has("out.csv.partial"), "{len}");
    }
}

#[test]
fn a_pipe_whose_first_command_fails_publishes_nothing() {
    let sandbox = sandbox();
    let mut table = named_rows(2 * GROUP_ROWS + 500, 3);
    table.vectors[3 * (2 * GROUP_ROWS + 400)] = f32::NAN;
    sandbox.put_table("bad.parquet", &table);
    let outcome = sandbox.shell(
        "veridical -q vectors convert bad.parquet - | veridical -q vectors convert - out.csv",
    );
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(!sandbox.has("out.csv"), "half a table was published");
}

#[test]
fn a_header_that_promises_too_much_is_refused() {
    let sandbox = sandbox();
    sandbox.shell("veridical vectors convert t.parquet - > t.arrows");
    let whole = sandbox.bytes("t.arrows");
    for promise in [1i32 << 30, i32::MAX, -5] {
        let mut stream = whole.clone();
        stream[4..8].copy_from_slice(&promise.to_le_bytes());
        let outcome = convert(&sandbox, &stream);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.only_error().starts_with("-: not a readable Arrow IPC file: "));
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let sandbox = sandbox();
    for line in [
        "veridical -q featurize apply --spec spec.json t.parquet -",
        "veridical -q vectors convert t.parquet -",
        "veridical -q vectors head t.parquet --rows 100000",
        "veridical -q vectors head t.parquet --rows 100000 --json",
        "veridical --help",
    ] {
        let outcome =
            sandbox.shell(&format!("{line} | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}"));
        assert_eq!(outcome.code, Some(0), "{line} {outcome:?}");
        assert_eq!(outcome.stderr, "", "{line}");
    }
}

/// Notes and warnings are worth less than the work: nobody reading them is no reason to fail.
#[test]
#[cfg(target_os = "linux")]
fn a_closed_or_full_stderr_does_not_stop_a_job() {
    let sandbox = sandbox();
    let job = "veridical vectors convert t.parquet out.csv --force";
    for line in [
        format!("{job} 2>/dev/full"),
        format!("{job} 2>&-"),
        // `true` closes the pipe at once.
        format!("{{ {job} 2>&1 >&3 | true; exit ${{PIPESTATUS[0]}}; }} 3>/dev/null"),
    ] {
        let outcome = sandbox.shell(&line);
        assert_eq!(outcome.code, Some(0), "{line} {outcome:?}");
        assert!(sandbox.has("out.csv"), "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_stdout_is_an_error_that_does_not_advise_to_resume() {
    let sandbox = sandbox();
    for line in ["vectors head t.parquet", "vectors convert t.parquet -"] {
        let outcome = sandbox.shell(&format!("veridical -q {line} > /dev/full"));
        assert_eq!(outcome.code, Some(2), "{line} {outcome:?}");
        let error = outcome.only_error();
        assert!(error.contains("cannot write: No space left on device (os error 28)"), "{error}");
        assert!(!error.contains("--resume"), "a stream cannot be resumed: {error}");
    }
}
