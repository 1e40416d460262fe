//! `--config`: a file with the names of flags, overridden by flags, for every verb.

use crate::common::Sandbox;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put("t.csv", "id,a,b\n1,1,2\n2,3,4\n3,5,6\n");
    sandbox.put("c.toml", "input = \"t.csv\"\nrows = 2\n");
    sandbox
}

#[test]
fn a_file_gives_what_is_required_and_flags_are_stronger() {
    let sandbox = sandbox();
    let by_file = sandbox.ok("vectors head --config c.toml --json");
    assert_eq!(by_file, sandbox.ok("vectors head t.csv --rows 2 --json"));
    let both = sandbox.ok("vectors head --config c.toml --rows 1 --json");
    assert_eq!(both, sandbox.ok("vectors head t.csv --rows 1 --json"));
}

#[test]
fn an_error_in_a_file_is_reported_with_its_place() {
    let sandbox = sandbox();
    sandbox.put("unknown.toml", "input = \"t.csv\"\nrow = 2\n");
    sandbox.refuses(
        "vectors head --config unknown.toml",
        "unknown.toml: `vectors head` has no setting `row`",
    );
    sandbox.put("kind.toml", "input = 3\n");
    sandbox.refuses("vectors head --config kind.toml", "kind.toml: --input: expected a path");
    sandbox.put("none.toml", "rows = 2\n");
    sandbox.refuses("vectors head --config none.toml", "--input is missing; give it a value");
    sandbox.refuses_like("vectors head --config nowhere.toml", |error| {
        assert!(error.starts_with("nowhere.toml: cannot read: "), "{error}");
    });
    sandbox.put("torn.toml", "input = \"t.csv\n");
    sandbox.refuses_like("vectors head --config torn.toml", |error| {
        assert!(error.starts_with("torn.toml: not a TOML file: "), "{error}");
    });
}
