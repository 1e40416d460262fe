//! Which classes count, and under which numbers.
//!
//! Labels l in 0..K of a reader become c(l): the place of their name among the classes chosen, or none. Every
//! class that is learnt has at least one training example.

use std::collections::HashSet;
use std::path::Path;

use super::folder::Folder;
use super::{ExampleOptions, Examples, Found, Targets};
use crate::{Error, Result, storage};

const MAX_NAMES: u64 = 1 << 20;

/// Keeps the classes chosen and checks that each can be learnt.
pub(super) fn settle(path: &Path, mut found: Found, options: &ExampleOptions) -> Result<Found> {
    if options.regression {
        return match options.classes {
            Some(_) => Err(Error::Usage("--classes makes no sense with --regression".into())),
            None => Ok(found),
        };
    }
    let names = match (&options.classes, &options.known_classes) {
        (Some(chosen), _) => chosen_classes(path, &found, chosen)?,
        (None, Some(known)) => known.clone(),
        (None, None) => found.classes.clone(),
    };
    let numbers: Vec<Option<u32>> = found.classes.iter().map(|name| place(&names, name)).collect();
    if options.classes.is_none() {
        check_known(path, &found, &numbers)?;
    }
    found.train = renumber(path, found.train, &numbers, "training", &names)?;
    found.test = renumber(path, found.test, &numbers, "test", &names)?;
    found.classes = names;
    if options.known_classes.is_none() {
        check_learnable(path, &found, options.classes.is_some())?;
    }
    Ok(found)
}

/// The names of classes that files know by number alone: `0`, `1`, ... up to the largest label.
pub(super) fn numbered(parts: [&Option<Examples>; 2]) -> Vec<String> {
    let n = parts.into_iter().flatten().flat_map(labels).max().map_or(0, |&largest| largest + 1);
    (0..n).map(|class| class.to_string()).collect()
}

/// The names in `file`, one a line, if it is there; otherwise numbers.
pub(super) fn named(
    folder: &Folder<'_>,
    file: &str,
    most: usize,
    parts: [&Option<Examples>; 2],
) -> Result<Vec<String>> {
    let numbers = numbered(parts);
    let Some(path) = folder.find(&[file]) else { return Ok(numbers) };
    let names = read_names(path, most)?;
    if names.len() < numbers.len() {
        let (n, last) = (names.len(), numbers.len() - 1);
        let what = format!("names {n} classes, but the labels reach {last}; name them all");
        return Err(Error::content(path, what));
    }
    Ok(names)
}

/// Names of classes, one a line.
fn read_names(path: &Path, most: usize) -> Result<Vec<String>> {
    let text = String::from_utf8(storage::read(path, MAX_NAMES)?)
        .map_err(|_| Error::malformed(path, "text", "it is not UTF-8"))?;
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if names.is_empty() || names.len() > most {
        let n = names.len();
        let what = format!("has {n} names of classes where 1 to {most} are expected");
        return Err(Error::content(path, what));
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::content(path, format!("two classes are called `{}`", pair[0]))),
        None => Ok(names),
    }
}

fn place(names: &[String], name: &String) -> Option<u32> {
    names.iter().position(|other| other == name).map(|at| at as u32)
}

/// Names that the user chose; those of a network that is only tested need not occur.
fn chosen_classes(path: &Path, found: &Found, chosen: &[String]) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    for name in chosen {
        if !seen.insert(name) {
            return Err(Error::Usage(format!("--classes names `{name}` twice")));
        }
        if found.train.is_some() && !found.classes.contains(name) {
            let there = listed(&found.classes);
            let what = format!("--classes: there is no class `{name}`; the classes are {there}");
            return Err(Error::content(path, what));
        }
    }
    Ok(chosen.to_vec())
}

/// Labels that a network which is there already does not know.
fn check_known(path: &Path, found: &Found, numbers: &[Option<u32>]) -> Result<()> {
    for (part, examples) in found.parts() {
        let labels = labels(examples);
        if let Some(at) = labels.iter().position(|&label| numbers[label as usize].is_none()) {
            let name = &found.classes[labels[at] as usize];
            let what = format!("example {at} of the {part} part is of class `{name}`");
            let remedy = "which the network was not trained on; leave it out with --classes";
            return Err(Error::content(path, format!("{what}, {remedy}")));
        }
    }
    Ok(())
}

/// The same examples under their new numbers, without those of classes that were not chosen.
fn renumber(
    path: &Path,
    part: Option<Examples>,
    numbers: &[Option<u32>],
    name: &str,
    classes: &[String],
) -> Result<Option<Examples>> {
    let Some(mut part) = part else { return Ok(None) };
    let kept: Vec<usize> =
        (0..part.n()).filter(|&i| numbers[labels(&part)[i] as usize].is_some()).collect();
    if kept.is_empty() {
        let what = format!("the {name} part has no example of the classes {}", listed(classes));
        return Err(Error::content(path, what));
    }
    if kept.len() < part.n() {
        part = part.subset(&kept);
    }
    if let Targets::Classes(labels) = &mut part.targets {
        // INVARIANT: labels without a number were left out above.
        labels.iter_mut().for_each(|label| *label = numbers[*label as usize].expect("kept"));
    }
    Ok(Some(part))
}

fn check_learnable(path: &Path, found: &Found, is_chosen: bool) -> Result<()> {
    let Some(train) = &found.train else { return Ok(()) };
    let mut counts = vec![0usize; found.classes.len()];
    labels(train).iter().for_each(|&label| counts[label as usize] += 1);
    let Some(empty) = counts.iter().position(|&count| count == 0) else {
        return match found.classes.as_slice() {
            [only] => {
                let what = format!("all examples are of class `{only}`; two classes are needed");
                Err(Error::content(path, what))
            }
            _ => Ok(()),
        };
    };
    let name = &found.classes[empty];
    let in_test = found.test.as_ref().map_or(&[][..], labels);
    let what = match in_test.iter().position(|&label| label as usize == empty) {
        Some(at) => format!(
            "example {at} of the test part has class `{name}`, which no training example has"
        ),
        None => format!("class `{name}` has no training example"),
    };
    let remedy =
        if is_chosen { "take it out of --classes" } else { "choose others with --classes" };
    Err(Error::content(path, format!("{what}; {remedy}")))
}

fn labels(examples: &Examples) -> &[u32] {
    match &examples.targets {
        Targets::Classes(labels) => labels,
        Targets::Numbers { .. } => &[],
    }
}

/// The first names, in a sentence.
pub(super) fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
