//! `veridical refresh [init|verify|list|rollback|history]`

use clap::{Args, Subcommand};
use veridical::Result;
use veridical::core::Observer;
use veridical::refresh::{
    self, HistoryOf, Init, Initialized, ListVersions, Refresh, RefreshTables, Refreshed, RollBack,
    RolledBack, Verified, VerifyVersion, Versions,
};

use crate::commands::stability::write_report;
use crate::flags::Flags;
use crate::terminal::Terminal;
use crate::typed::typed;

pub const ABOUT: &str = "\
Align, compare, gate, featurize and publish today's vectors in one job.

The daily job as one command. Today's table is aligned to a fixed reference, compared with it and with the version
before, checked against a budget of limits, featurized if a spec is given, and published as OUT/VERSION, which becomes
OUT/current by one rename. The version is --date, else the next number. If a limit is not met, OUT/VERSION.rejected holds
the report, the current version stays, and the exit code is 1. Without limits or a noise floor nothing is published, unless
--without-limits lets the verdict decide; `refresh init` makes a budget. Every verb that takes a table takes OUT and means
its current version. A killed job continues with --resume and publishes the same bytes.";

const EXAMPLES: &str = "\
Examples:
  veridical refresh init --reference A.parquet --out live --runs runs/i2v
  veridical refresh --reference A.parquet --new B.parquet --out live --budget live.budget.toml --date 2026-11-18
  veridical refresh --reference A.npy --new B.npy --budget b.toml --out live --on-reject notify.sh
  veridical refresh verify live
  veridical refresh rollback live
  veridical refresh history live --html history.html

Exit codes: 0 published, 1 not published: a limit was not met, 2 bad input, 130 interrupted.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Command {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    refresh: Flags<RefreshTables>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a budget, a spec and the first version from a reference.
    Init(Flags<Init>),
    /// Check every file of a version against its manifest.
    Verify(Flags<VerifyVersion>),
    /// List all versions: current, published, removed, rejected.
    List(Flags<ListVersions>),
    /// Make the version published before current again, or a version by name.
    Rollback(Flags<RollBack>),
    /// Show the trend of every measure over all days.
    History(Flags<HistoryOf>),
}

impl Command {
    pub fn run(self, terminal: &Terminal) -> Result<()> {
        match self.action {
            Some(Action::Init(flags)) => init(flags, terminal),
            Some(Action::Verify(flags)) => verify(flags, terminal),
            Some(Action::List(flags)) => list(flags, terminal),
            Some(Action::Rollback(flags)) => rollback(flags, terminal),
            Some(Action::History(flags)) => history(flags, terminal),
            None => publish(self.refresh, terminal),
        }
    }
}

fn publish(flags: Flags<RefreshTables>, terminal: &Terminal) -> Result<()> {
    let RefreshTables { job, output } = flags.settings("refresh")?;
    output.check(terminal.is_json())?;
    let settings = Refresh { command: typed(), ..job };
    let refreshed = refresh::refresh(&settings, &terminal.job())?;
    // What was decided stays decided: a report that cannot be written is said, and changes nothing.
    let said = write_report(
        &output,
        || refreshed.to_html(&settings.command),
        || refreshed.to_markdown(),
        || refreshed.to_prometheus(),
        terminal,
    )
    .unwrap_or_else(|error| {
        terminal.warn(&error.to_string());
        false
    });
    if let Some(out) = &output.outliers
        && let Err(error) = refreshed.report.write_outliers(out)
    {
        terminal.warn(&error.to_string());
    }
    if !said {
        terminal.result("refresh", &refreshed, &text(&refreshed))?;
    }
    let out = &refreshed.out;
    terminal.next(&match refreshed.published {
        true => format!("veridical refresh history {out} --html history.html"),
        false => format!("open {}/report.html", refreshed.folder),
    });
    refreshed.gate()
}

fn text(refreshed: &Refreshed) -> String {
    let mut text = format!("{}\n\n{}", refreshed.headline(), refreshed.to_text());
    if let Some(yesterday) = &refreshed.yesterday {
        let kept = |key: &str| {
            let found = yesterday.measures.iter().find(|m| m.key == key)?.estimate?;
            Some(format!("{:.3}", found.value))
        };
        if let (Some(overlap), Some(cka)) = (kept("nn_overlap"), kept("cka")) {
            let version = &yesterday.version;
            text += &format!("\n  since version {version}: neighbors kept {overlap}, CKA {cka}\n");
        }
    }
    let word = if refreshed.published { "published" } else { "NOT published; report written" };
    text += &format!("\n{word}:\n");
    for file in &refreshed.files {
        text += &format!("  {file}\n");
    }
    if !refreshed.removed.is_empty() {
        text += &format!("removed: {}\n", refreshed.removed.join(", "));
    }
    text
}

fn init(flags: Flags<Init>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("refresh init")?;
    let made = refresh::init(&settings, &terminal.job())?;
    let Initialized { budget, limits, measured, spec, version, folder } = &made;
    let Init { reference, out, .. } = &settings;
    let daily = format!(
        "veridical refresh --reference {reference} --new TODAY --out {out} --budget {budget} --spec {spec}"
    );
    let how = if *measured { "measured on the runs" } else { "by rule of thumb" };
    let text = format!(
        "budget:  {budget} ({limits} limits, {how})\nspec:    {spec}\nversion: {version}, in {folder}\n\nevery day:\n  {daily}\n"
    );
    terminal.result("refresh-init", &made, &text)
}

fn verify(flags: Flags<VerifyVersion>, terminal: &Terminal) -> Result<()> {
    let verified = refresh::verify(&flags.settings("refresh verify")?)?;
    let Verified { version, folder, files, bytes, rows } = &verified;
    let text = format!(
        "{folder}: version {version} is complete: {files} files, {bytes} bytes, {rows} rows\n"
    );
    terminal.result("refresh-verify", &verified, &text)
}

fn list(flags: Flags<ListVersions>, terminal: &Terminal) -> Result<()> {
    let versions = refresh::list(&flags.settings("refresh list")?)?;
    terminal.result("refresh-list", &versions, &listed(&versions))
}

fn listed(versions: &Versions) -> String {
    let mut text = format!("  {:<12} {:<10} {:>10}  limits met\n", "version", "state", "rows");
    for version in &versions.versions {
        let limits = match version.limits {
            [_, 0] => "no limits".to_owned(),
            [met, all] => format!("{met} of {all}"),
        };
        let (name, state, rows) = (&version.version, version.state, version.rows);
        text += &format!("  {name:<12} {state:<10} {rows:>10}  {limits}\n");
    }
    text
}

fn rollback(flags: Flags<RollBack>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("refresh rollback")?;
    let rolled = refresh::rollback(&settings, &terminal.job())?;
    let RolledBack { out, from, version } = &rolled;
    let from = from.as_deref().unwrap_or("none");
    terminal.result(
        "refresh-rollback",
        &rolled,
        &format!("{out}: version {version} is current, before it was {from}\n"),
    )
}

fn history(flags: Flags<HistoryOf>, terminal: &Terminal) -> Result<()> {
    let settings = flags.settings("refresh history")?;
    let history = refresh::history(&settings)?;
    terminal.write_page(settings.html.as_ref(), || history.to_html(&typed()))?;
    terminal.result("refresh-history", &history, &history.to_text())?;
    if settings.html.is_none() {
        terminal.next("the same command with --html history.html for a page with charts");
    }
    Ok(())
}
