//! Completions and man pages, as a shell and a pager see them.

use std::process::{Command, Stdio};

use crate::common::{Sandbox, json};

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// What bash offers after `words`, of which the last is being typed.
fn candidates(sandbox: &Sandbox, words: &str) -> Vec<String> {
    // The function that `complete` registered is called as bash calls it; `compopt` works only while
    // a person is completing, and only decides about blanks and file names.
    let script = format!(
        "compopt() {{ :; }}
        source completions.bash
        COMP_WORDS=({words}); COMP_CWORD=$(({n} - 1)); COMP_LINE='{words}'; COMP_POINT=${{#COMP_LINE}}
        complete -p veridical > registered
        [[ $(< registered) =~ -F\\ ([^ ]+) ]] || exit 9
        \"${{BASH_REMATCH[1]}}\" veridical \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"
        printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        n = words.split_whitespace().count(),
    );
    let outcome = sandbox.shell(&script);
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{words}");
    outcome.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_flags_and_values() {
    if !runs("bash") {
        eprintln!("skipped: there is no bash");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.put("completions.bash", sandbox.ok("completions bash"));
    assert_eq!(candidates(&sandbox, "veridical feat"), ["featurize"]);
    assert_eq!(candidates(&sandbox, "veridical vectors con"), ["convert"]);
    assert_eq!(candidates(&sandbox, "veridical featurize apply --sp"), ["--spec"]);
    assert_eq!(candidates(&sandbox, "veridical vectors convert --dtype f1"), ["f16"]);
    assert_eq!(candidates(&sandbox, "veridical completions po"), ["powershell"]);
    let flags = candidates(&sandbox, "veridical vectors stats --");
    for flag in ["--id-column", "--on-nan", "--threads", "--json", "--help"] {
        assert!(flags.iter().any(|offered| offered == flag), "{flag} is not in {flags:?}");
    }
}

#[test]
fn completions_are_for_known_shells() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.ok(&format!("completions {shell}"));
        let printed = json(&sandbox, "completions", &format!("completions {shell}"));
        assert_eq!(printed["script"], script);
    }
    let outcome = sandbox.run("completions csh");
    assert_eq!((outcome.code, &*outcome.stdout), (Some(2), ""));
    let values = "[possible values: bash, elvish, fish, powershell, zsh]";
    assert!(outcome.stderr.contains(values), "{}", outcome.stderr);
}

#[test]
fn man_writes_one_page_per_verb_or_prints_one() {
    let sandbox = Sandbox::new();
    let list = sandbox.ok("man --out pages/man1");
    let pages = json(&sandbox, "man", "man --out pages/man1")["pages"].clone();
    let pages: Vec<String> = serde_json::from_value(pages).unwrap();
    assert_eq!(list.lines().collect::<Vec<_>>(), pages);
    let written = sandbox.names().iter().filter(|path| path.extension().is_some()).count();
    assert_eq!(written, pages.len());

    let page = sandbox.ok("man featurize apply");
    assert_eq!(page, sandbox.text("pages/man1/veridical-featurize-apply.1"));
    assert!(page.contains("\n.TH veridical-featurize-apply 1 "), "{page}");
    assert_eq!(sandbox.ok("man"), sandbox.text("pages/man1/veridical.1"));

    sandbox.refuses(
        "man featurize fly",
        "unknown verb `featurize fly`; `veridical --help` lists the verbs",
    );
    sandbox.put("taken", "");
    sandbox
        .refuses("man --out taken", "taken: cannot create the folder: File exists (os error 17)");
}

#[test]
fn man_pages_render_without_a_warning() {
    if !runs("groff") {
        eprintln!("skipped: there is no groff");
        return;
    }
    let sandbox = Sandbox::new();
    for path in sandbox.ok("man --out man1").lines() {
        let outcome = sandbox.shell(&format!("groff -man -ww -Tutf8 -P-cbou {path}"));
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{path}");
        assert!(outcome.stdout.contains("SYNOPSIS"), "{path}\n{}", outcome.stdout);
    }
}
