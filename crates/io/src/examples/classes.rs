//! Class selection and class indices.
//!
//! Labels l in 0..K of a reader become c(l): the position of their name among the selected classes, or none. Every
//! class that is learned has at least one training example.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use veridical_core::Error as Core;

use super::folder::Folder;
use super::{ExampleOptions, Examples, Found, Targets};
use crate::{Error, Result, storage};

const MAX_NAMES: u64 = 1 << 20;
/// The maximum number of names listed in a message.
const MOST_LISTED: usize = 20;

/// Keeps the selected classes and checks that each can be learned.
pub(super) fn settle(path: &Path, mut found: Found, options: &ExampleOptions) -> Result<Found> {
    if options.regression {
        return match options.classes {
            Some(_) => Err(Core::request("⟨classes⟩ cannot be used with ⟨regression⟩", "").into()),
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
        if options.classes.is_none() {
            let note = far_class(&found);
            found.notes.extend(note);
        }
    }
    Ok(found)
}

/// The names of classes in files that only have numbers: `0`, `1`, ... up to the largest label.
pub(super) fn numbered(parts: [&Option<Examples>; 2]) -> Vec<String> {
    let n = parts.into_iter().flatten().flat_map(labels).max().map_or(0, |&largest| largest + 1);
    (0..n).map(|class| class.to_string()).collect()
}

/// The names in `file`, one per line, if it exists; otherwise numbers.
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

/// Reads class names, one per line.
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

/// The classes that the user selected; those of a trained network need not occur.
fn chosen_classes(path: &Path, found: &Found, chosen: &[String]) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    for name in chosen {
        if !seen.insert(name) {
            return Err(Core::request(format!("⟨classes⟩ names `{name}` twice"), "").into());
        }
        if found.train.is_some() && !found.classes.contains(name) {
            let there = listed(&found.classes);
            let what = format!("⟨classes⟩: there is no class `{name}`; the classes are {there}");
            return Err(Error::content(path, what));
        }
    }
    Ok(chosen.to_vec())
}

/// Rejects labels that a trained network does not know.
fn check_known(path: &Path, found: &Found, numbers: &[Option<u32>]) -> Result<()> {
    for (part, examples) in found.parts() {
        let labels = labels(examples);
        if let Some(at) = labels.iter().position(|&label| numbers[label as usize].is_none()) {
            let name = &found.classes[labels[at] as usize];
            let what = format!("example {at} of the {part} set has class `{name}`");
            let remedy = "which the network was not trained on; leave it out with ⟨classes⟩";
            return Err(Error::content(path, format!("{what}, {remedy}")));
        }
    }
    Ok(())
}

/// The examples under their new class indices, without those of classes that were not selected.
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
        let what = format!("the {name} set has no example of the classes {}", listed(classes));
        return Err(Error::content(path, what));
    }
    if kept.len() < part.n() {
        part = part.subset(&kept);
    }
    if let Targets::Classes(labels) = &mut part.targets {
        // INVARIANT: labels without an index were dropped above.
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
    if !is_chosen && let Some(far) = far_label(found) {
        return Err(far);
    }
    let name = &found.classes[empty];
    let in_test = found.test.as_ref().map_or(&[][..], labels);
    let in_test = in_test.iter().position(|&label| label as usize == empty);
    // Positions refer to the classes as they were found.
    let place = in_test.filter(|_| !is_chosen).and_then(|_| found.first(empty as u32));
    let what = match in_test {
        Some(at) => {
            let place = place.as_ref().map(|(_, place)| place.clone());
            let place = place.unwrap_or_else(|| format!("example {at}"));
            format!("{place} of the test set has class `{name}`, which no training example has")
        }
        None => format!("class `{name}` has no training example"),
    };
    let remedy =
        if is_chosen { "remove it from ⟨classes⟩" } else { "choose others with ⟨classes⟩" };
    let path = place.map_or(path, |(file, _)| file);
    Err(Error::content(path, format!("{what}; {remedy}")))
}

/// A label far above the others in files that have only numbers: such files have a class for every number up to
/// the largest, so that a stray 9 beside 0, 1 and 2 would make six classes without examples.
fn far_label(found: &Found) -> Option<Error> {
    let is_number = |(number, name): (usize, &String)| *name == number.to_string();
    if !found.classes.iter().enumerate().all(is_number) {
        return None;
    }
    let all = found.parts().flat_map(|(_, part)| labels(part));
    let all: Vec<u64> = all.collect::<BTreeSet<_>>().into_iter().map(|&n| n.into()).collect();
    let at = above_gap(&all, |_, _| true)?;
    let (label, from, to) = (all[at], all[at - 1] + 1, all[at] - 1);
    let (path, place) = found.first(label as u32)?;
    let gap = if from == to { from.to_string() } else { format!("{from} to {to}") };
    let what = format!("{place} has the label {label}, but no label is {gap}");
    let names = |labels: &[u64]| labels.iter().map(u64::to_string).collect::<Vec<_>>();
    let (below, all) = (names(&all[..at]), names(&all));
    let others: Vec<String> = all.iter().filter(|name| **name != all[at]).cloned().collect();
    let (without, with) = (chosen(&below), chosen(&all));
    let remedy = format!("repair it, leave it out with {without}, or keep it with {with}");
    Some(Error::content(path, format!("{what}; the others are {}; {remedy}", listed(&others))))
}

/// The note about such a label in a table, where every label that occurs is a class: it may well be intended.
fn far_class(found: &Found) -> Option<String> {
    let numbers = found.classes.iter().map(|name| name.parse().ok());
    let numbers = numbers.collect::<Option<Vec<u64>>>()?;
    // Not in 10, 20, 30, which are equally spaced.
    let is_far = |missing: u64, below: u64| missing > below.saturating_sub(numbers[0]);
    let at = above_gap(&numbers, is_far)?;
    let (path, place) = found.first(at as u32)?;
    let (below, far) = found.classes.split_at(at);
    let what = format!("{place} has class `{}`, far above {}", far[0], listed(below));
    let remedy = format!("if it is a mistake, leave it out with {}", chosen(below));
    Some(format!("{}: {what}; {remedy}", path.display()))
}

/// The position of the first of ascending numbers above a gap that is at least as wide as there are numbers above it, with two or
/// more below: of 9 in 0, 1, 2, 9, and of none in 0, 1, 2, 4, 5, where it is 3 that is missing. `is_far` receives the number of
/// missing values and the number below the gap.
fn above_gap(numbers: &[u64], is_far: impl Fn(u64, u64) -> bool) -> Option<usize> {
    (2..numbers.len()).find(|&at| {
        let (below, above) = (numbers[at - 1], numbers.len() - at);
        let missing = numbers[at].saturating_sub(below).saturating_sub(1);
        missing >= above as u64 && is_far(missing, below)
    })
}

/// The setting that keeps these classes, in full if it is short.
fn chosen(classes: &[String]) -> String {
    match classes.len() {
        ..=MOST_LISTED => format!("⟨classes⟩ {}", classes.join(",")),
        _ => "⟨classes⟩".into(),
    }
}

pub(super) fn labels(examples: &Examples) -> &[u32] {
    match &examples.targets {
        Targets::Classes(labels) => labels,
        Targets::Numbers { .. } => &[],
    }
}

/// The first names, in a sentence.
pub(super) fn listed(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(MOST_LISTED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
