//! Table 3: a network that learned from poisoned images, its surrogates, and kernels that flag marked test images.

use veridical::Result;

use super::measures::{Measures, row};
use super::poison::{self, KERNELS, Measured};
use crate::{Experiment, Findings, Row, RunOptions};

pub(crate) const TABLE3: Experiment = Experiment {
    id: "004-table3",
    claim: "Paper 004, section 1, Table 3: on a network that learned from images with a square and a false label, the nearest training \
        images of a test image flag the marked ones almost perfectly with every kernel but the conjugate one; the trace kernel is the \
        most faithful surrogate on clean test images and the projected pseudo kernel on marked ones",
    rule: "replicated if, on MNIST and FashionMNIST at 5 % and on CIFAR-10 at 10 %, (a) the mean precision and the mean recall of the \
        vote of 3 of 5 are at least 99 % for trNTK, trNTK0, their projections and the embedding kernel, each; (b) for the conjugate \
        kernel the mean precision is at most 50 % or the mean recall at most 60 %; (c) on clean images no mean tau of the correct \
        class is more than 0.01 above that of trNTK; (d) on marked images no mean tau of the target is more than 0.01 above that of \
        proj-pNTK; partly if only some hold; refuted if none does. Shares of 2 and 10 % on MNIST and FashionMNIST are reported \
        without a claim. Intervals are 95 %, over seeds; with one seed over test images",
    deviations: &[
        "three seeds at 5 % of MNIST and FashionMNIST, one for everything else; 3,000 training images, 300 test images as they are and \
         the same 300 marked; the paper has all of CIFAR-10 and one network",
        "a network of eight convolutions of 8 channels with batch norm for the paper's one of 21 layers",
        "a white square of 3 x 3 pixels in gray images, a yellow one of 4 x 4 in color, in the lower right corner; only images of \
         classes other than the target are marked, and the target is class 0",
        "the surrogate is a solved kernel logistic regression with lambda 1e-3 of the mean of the kernel's diagonal; the paper's is fitted \
         by stochastic gradients",
        "tau: the authors' code indexes the scores with one-hot labels, so it ranks P(class 0) and P(class 1), takes the poisoned labels \
         for both sets and scores trNTK0 by trNTK's fit: not comparable. Ours is of the correct class on clean images and of the target \
         on marked ones",
        "the paper's table has clean and marked columns exchanged for proj-pNTK (tau), proj-trNTK and CK (TAD), as the notebook of its \
         code prints them; the printed values are shown",
        "the paper's precision 1.65 % at recall 50.61 % for CK cannot be: with 10,000 marked of 20,000 test images, 5,061 are flagged \
         rightly and at most 10,000 wrongly, so the precision is at least 33.6 %",
        "all sketches are sparse sign sketches of 10,240 numbers",
    ],
    config: include_str!("../../../../experiments/004-table3/config.toml"),
    run,
};

/// Precision, recall, tau and TAD on clean and on marked images, as printed.
const PRINTED: [(&str, [f64; 6]); 6] = [
    ("trNTK", [99.99, 99.98, 0.585, 0.10, 0.441, -1.08]),
    ("trNTK0", [99.99, 99.99, 0.518, 0.12, 0.543, 0.44]),
    ("proj-trNTK", [99.99, 99.97, 0.565, 0.09, 0.418, 1.3]),
    ("proj-pNTK", [99.99, 100.00, 0.554, 0.07, 0.665, -1.3]),
    ("Em", [99.71, 100.00, 0.430, -2.73, 0.261, -13.98]),
    ("CK", [1.65, 50.61, 0.552, -3.50, 0.454, -81.25]),
];

fn run(config: &str, options: &RunOptions<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    for Measured { runs, measures } in poison::measured(config, options, &mut findings)? {
        let of: Vec<&Measures> = measures.iter().collect();
        report(&runs.name, runs.decides, &of, &mut findings);
    }
    Ok(findings)
}

fn report(name: &str, decides: bool, runs: &[&Measures], findings: &mut Findings) {
    let is_paper = name.starts_with("CIFAR");
    let paper = |kernel: &str, at: usize| {
        let printed = PRINTED.iter().find(|(own, _)| *own == kernel).filter(|_| is_paper);
        printed.map(|(_, values)| values[at])
    };
    let add =
        |what: String, paper, measure: &str| row(format!("{name}: {what}"), paper, runs, measure);
    let rows = &mut findings.rows;
    rows.extend(add("accuracy of the network, %".into(), None, "accuracy"));
    rows.extend(add(
        "marked images of other classes in the target, %".into(),
        None,
        "attack success",
    ));
    let mean = |measure: String| row("", None, runs, &measure).map(|row| row.measured.value);
    for kernel in KERNELS {
        let pair = ["precision", "recall"].map(|m| mean(format!("{kernel}: {m}")));
        for (at, measure) in ["precision", "recall"].into_iter().enumerate() {
            let holds = match (kernel, pair) {
                ("CK", [precision, recall]) => {
                    let fails =
                        precision.is_none_or(|p| p <= 50.0) || recall.is_none_or(|r| r <= 60.0);
                    Some(fails)
                }
                ("trNTK" | "trNTK0" | "proj-trNTK" | "proj-pNTK" | "Em", pair) => {
                    Some(pair[at].is_some_and(|value| value >= 99.0))
                }
                _ => None,
            };
            let found = add(
                format!("{kernel}: {measure}, %"),
                paper(kernel, at),
                &format!("{kernel}: {measure}"),
            );
            rows.extend(found.map(|row| Row { holds: holds.filter(|_| decides), ..row }));
        }
    }
    let parts = [
        ("clean", "trNTK", "tau of the correct class", 2),
        ("marked", "proj-pNTK", "tau of the target", 4),
    ];
    for (part, best, shown, at) in parts {
        let tau = |kernel: &str| mean(format!("{kernel}, {part}: tau of the correct class"));
        let most = KERNELS.iter().filter_map(|kernel| tau(kernel)).fold(f64::MIN, f64::max);
        for kernel in KERNELS {
            let measure = format!("{kernel}, {part}: tau of the correct class");
            let found =
                add(format!("{kernel}, {part} images: {shown}"), paper(kernel, at), &measure);
            rows.extend(found.map(|row| {
                let holds = row.measured.value >= most - 0.01;
                Row { holds: (decides && kernel == best).then_some(holds), ..row }
            }));
            let measure = format!("{kernel}, {part}: TAD");
            rows.extend(add(
                format!("{kernel}, {part} images: TAD"),
                paper(kernel, at + 1),
                &measure,
            ));
        }
    }
}
