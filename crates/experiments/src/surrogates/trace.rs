//! From ten incidents to the poisoned training images.

use veridical::Result;

use super::measures::{Measures, row};
use super::poison::{self, Measured};
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const TRACE: Experiment = Experiment {
    id: "004-trace",
    claim: "Paper 004, section 1 (our question): ten incidents of a network that learned from poisoned images lead to the poisoned \
        training images by the contrast of similarities, and not by the attributions of equation 3",
    rule: "replicated if, on MNIST and FashionMNIST at 5 % and on CIFAR-10 at 10 %, (a) the mean area under the ROC curve of the contrast \
        of trNTK, of poisoned rows among the training images with the target's label, is at least 0.99; (b) for CK at least 0.9; (c) \
        that of the mean mass of equation 3 under trNTK lies between 0.3 and 0.7; (d) the rows that the trace lists under trNTK have a \
        mean precision and recall of at least 90 % each; partly if only some hold; refuted if none does. Intervals are 95 %, over seeds",
    deviations: &[
        "networks, images and kernels are those of 004-table3: three seeds at 5 %, one at 2 and 10 % and on CIFAR-10",
        "incidents are the first ten marked test images of other classes that the network puts into the target; the reference are all \
         clean test images that it rightly puts there, of 300",
        "without incidents: the spectral signature within the target, and the place of the target among the classes when they are ranked \
         by how far they fall apart; 1 is the first place",
    ],
    config: include_str!("../../../../experiments/004-trace/config.toml"),
    run,
};

const SHOWN: [&str; 8] =
    ["trNTK", "trNTK0", "proj-trNTK", "proj-pNTK", "pNTK", "Em", "CK", "pixels"];

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for Measured { runs, measures } in poison::measured(config, options, &mut findings)? {
        let of: Vec<&Measures> = measures.iter().collect();
        for kernel in SHOWN {
            for measure in [
                "AUC of the contrast",
                "precision of the traced rows",
                "recall of the traced rows",
                "p of the trace",
                "AUC of the mass",
                "AUC of the spectral signature",
                "rank of the target in the scan",
            ] {
                let name = format!("{kernel}: {measure}");
                let Some(found) = row(format!("{}: {name}", runs.name), None, &of, &name) else {
                    continue;
                };
                let value = found.measured.value;
                let holds = match (kernel, measure) {
                    ("trNTK", "AUC of the contrast") => Some(value >= 0.99),
                    ("CK", "AUC of the contrast") => Some(value >= 0.9),
                    ("trNTK", "AUC of the mass") => Some((0.3..=0.7).contains(&value)),
                    ("trNTK", "precision of the traced rows" | "recall of the traced rows") => {
                        Some(value >= 90.0)
                    }
                    _ => None,
                };
                findings.rows.push(Row { holds: holds.filter(|_| runs.decides), ..found });
            }
        }
    }
    Ok(findings)
}
