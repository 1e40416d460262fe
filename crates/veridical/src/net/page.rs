//! HTML report of the evaluation of networks: accuracy, confusion matrix and learning curves.

use serde_json::Value;
use veridical_core::Estimate;
use veridical_report::{Axis, Card, Cell, Chart, Foot, Heatmap, Level, Line, Page, Table, Verdict};

use super::evaluate::{EvaluatedNet, NetEvaluation};
use super::{McNemar, Measures};

/// Confusion matrices with more classes are unreadable.
const MOST_CLASSES: usize = 40;

impl NetEvaluation {
    /// Renders the report as an HTML page; `command` is the command line shown in the footer.
    pub fn to_html(&self, command: &str) -> String {
        let own = || self.models.iter().filter(|model| !model.is_baseline);
        let models: Vec<&str> = own().map(|model| model.name.as_str()).collect();
        let mut page =
            Page::new("Evaluation of networks").of(models.join(", ")).verdict(self.verdict());
        page = page.cards(own().flat_map(cards));
        page = page.section("Metrics", "On examples read and normalized as in training.");
        for note in &self.notes {
            page = page.note(Level::Neutral, note);
        }
        page = page.table(self.table());
        for model in own() {
            page = page.section(model.name.clone(), format!("{}, {}", model.model, seeds(model)));
            page = page.charts(curves(model));
            if let Some(measures) = model.runs.first().filter(|_| !self.classes.is_empty()) {
                if self.classes.len() <= MOST_CLASSES {
                    page = page.chart(self.confusion(measures));
                }
                page = page.table(self.by_class(measures));
            }
        }
        let foot = own().fold(Foot::new(command), |foot, model| {
            foot.fact(format!("data of {}", model.name), &model.fingerprint)
                .fact(format!("runs of {}", model.name), seeds(model))
        });
        page.foot(foot).data(self).to_html()
    }

    fn verdict(&self) -> Verdict {
        let best = |a: &&EvaluatedNet, b: &&EvaluatedNet| a.loss.value.total_cmp(&b.loss.value);
        let own = || self.models.iter().filter(|model| !model.is_baseline);
        let Some(model) = own().min_by(best) else {
            return Verdict::new(Level::Neutral, "No model was evaluated.");
        };
        let sentence = match (&model.runs[..], model.accuracy, model.rmse) {
            ([one], Some(_), _) => {
                let accuracy = one.accuracy.map_or(String::new(), |share| share.percent());
                format!("{} classifies {accuracy} of {} examples correctly.", model.name, one.n)
            }
            (_, Some(accuracy), _) => {
                let mean = 100.0 * accuracy.value;
                format!("{} has a mean accuracy of {mean:.2} % over seeds.", model.name)
            }
            (_, None, Some(rmse)) => format!("{} has an RMSE of {:.4}.", model.name, rmse.value),
            _ => format!("{} has a loss of {:.4}.", model.name, model.loss.value),
        };
        if let Some(versus) = &model.versus {
            let McNemar { baseline, only_model, only_baseline, p } = versus;
            let (level, relation) = match () {
                () if *p > 0.05 => (Level::Warn, "is not distinguishable from"),
                () if only_model > only_baseline => (Level::Good, "is better than"),
                () => (Level::Bad, "is worse than"),
            };
            return Verdict::new(level, sentence).detail(format!(
                "It {relation} the best baseline, {baseline}: {only_model} examples only it has right, {only_baseline} only the \
                 baseline (McNemar's exact test, p = {p:.4})."
            ));
        }
        let verdict = Verdict::new(Level::Neutral, sentence);
        match own().count() {
            1 => verdict,
            n => verdict.detail(format!("It has the lowest loss of {n} models.")),
        }
    }

    fn table(&self) -> Table {
        let is_classes = !self.classes.is_empty();
        let heads: &[&str] = if is_classes {
            &["run", "seed", "examples", "loss", "accuracy"]
        } else {
            &["run", "seed", "examples", "loss", "rmse", "mae", "R2"]
        };
        let key = if is_classes { "accuracy" } else { "rmse" };
        let mut table = Table::new("All runs", heads.iter().copied()).key(key);
        for model in &self.models {
            for (seed, m) in model.seeds.iter().zip(&model.runs) {
                let mut cells = vec![
                    Cell::from(model.name.as_str()),
                    Cell::text(seed.to_string()),
                    Cell::number(m.n as f64, 0),
                    Cell::number(m.loss, 4),
                ];
                match m.accuracy {
                    Some(share) => cells.push(Cell::interval(share.value, share.interval(), 4)),
                    None => {
                        let errors = [m.rmse, m.mae, m.r2];
                        let cell = |x: Option<f64>| Cell::from(x.map(|x| Cell::number(x, 4)));
                        cells.extend(errors.map(cell));
                    }
                }
                table = table.row(cells);
            }
        }
        table.explain("95 % Wilson intervals.")
    }

    fn confusion(&self, measures: &Measures) -> Heatmap {
        let share = |row: &Vec<u64>| {
            let n = row.iter().sum::<u64>() as f64;
            row.iter().map(|&k| if n > 0.0 { k as f64 / n } else { f64::NAN }).collect()
        };
        let rows = measures.confusion.iter().map(share).collect();
        let names = || self.classes.iter().cloned();
        let explain = "Rows are true classes and sum to 1; the diagonal is correct.";
        Heatmap::new("Confusion matrix", explain, names(), names(), rows).named(
            "true class",
            "predicted class",
            "share",
        )
    }

    fn by_class(&self, measures: &Measures) -> Table {
        let rows = self.classes.iter().zip(measures.by_class()).zip(&measures.confusion);
        let row = |((name, share), counts): ((&String, Estimate), &Vec<u64>)| {
            let n = counts.iter().sum::<u64>();
            [
                Cell::from(name.as_str()),
                Cell::number(n as f64, 0),
                Cell::interval(share.value, share.interval(), 4),
            ]
        };
        Table::new("Accuracy by class", ["class", "examples", "accuracy"])
            .key("accuracy")
            .rows(rows.map(row))
    }
}

fn seeds(model: &EvaluatedNet) -> String {
    let list: Vec<String> = model.seeds.iter().map(ToString::to_string).collect();
    match list.len() {
        1 => format!("seed {}", list[0]),
        _ => format!("seeds {}", list.join(", ")),
    }
}

fn cards(model: &EvaluatedNet) -> Vec<Card> {
    let card =
        |label: &str, mean: Option<Estimate>, sd: Option<Estimate>, scale: f64, unit: &str| {
            let digits = if unit.is_empty() { 4 } else { 2 };
            let sd =
                sd.map_or(String::new(), |sd| format!(" ± {:.digits$}{unit}", scale * sd.value));
            let mean = format!("{:.digits$}{unit}{sd}", scale * mean?.value);
            Some(Card::new(label, mean).note(&model.name))
        };
    let cards = [
        card("accuracy", model.accuracy, model.accuracy_sd, 100.0, " %"),
        card("rmse", model.rmse, model.rmse_sd, 1.0, ""),
        card("loss", Some(model.loss), model.loss_sd, 1.0, ""),
    ];
    cards.into_iter().flatten().collect()
}

/// Returns loss and accuracy over epochs, from the metrics of the first run.
fn curves(model: &EvaluatedNet) -> Vec<Chart> {
    let points = |of: &dyn Fn(&Value) -> Option<f64>| -> Vec<[f64; 2]> {
        let point = |line: &Value| Some([line.get("epoch")?.as_f64()?, of(line)?]);
        model.metrics.iter().filter_map(point).collect()
    };
    let chart = |name: &str, explain: &str| {
        let train = points(&|line| line.get(name)?.as_f64());
        let validation = points(&|line| line.get("validation")?.get(name)?.as_f64());
        if train.len() < 2 {
            return None;
        }
        let most = if name == "accuracy" { 1.0 } else { f64::INFINITY };
        let (x, y) = (Axis::new("epoch").integers(), Axis::new(name).within([0.0, most]));
        let chart =
            Line::new(format!("{name} over epochs"), explain, x, y).series("training", train);
        Some(
            if validation.is_empty() { chart } else { chart.series("validation", validation) }
                .into(),
        )
    };
    let loss = chart(
        "loss",
        "The training loss is the mean over the steps of an epoch, while the weights change.",
    );
    let accuracy = chart("accuracy", "Training accuracy is measured during the steps of an epoch.");
    loss.into_iter().chain(accuracy).collect()
}
