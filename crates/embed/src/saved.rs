//! Conversion of models to named matrices, and back.

use std::borrow::Cow;

use veridical_data::{NamedTensor, TensorMap};

use crate::sequential::{STATE, Sequential};
use crate::{Embedding, Error, Factors, Model, Result};

/// Item numbers are written as f32, which is exact up to here.
const MOST_ITEMS: usize = 1 << 24;

/// The part that describes the networks of a sequential model.
pub(crate) const ARCHITECTURE: &str = "architecture";

/// A named matrix of a model.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The name of the matrix.
    pub name: Cow<'a, str>,
    /// The shape, mostly rows and columns.
    pub shape: Vec<usize>,
    /// The values, row-major.
    pub values: Cow<'a, [f32]>,
}

impl Part<'_> {
    /// Returns the matrix as a named tensor, the form in which it is stored.
    pub fn named(&self) -> NamedTensor<'_> {
        NamedTensor { name: &self.name, shape: &self.shape, values: &self.values }
    }
}

/// A vector table of a model, with its name and biases.
#[derive(Clone, Copy, Debug)]
pub struct ModelTable<'a> {
    /// The name: item, user, word, doc or context.
    pub name: &'static str,
    /// The vectors, one per id.
    pub rows: &'a Embedding,
    /// The biases, one per id, if the model has them.
    pub bias: Option<&'a [f32]>,
}

fn rows<'a>(name: &'static str, rows: &'a Embedding) -> Part<'a> {
    let shape = vec![rows.n_rows(), rows.dim()];
    Part { name: name.into(), shape, values: rows.values().into() }
}

fn column<'a>(name: &'static str, values: &'a [f32]) -> Part<'a> {
    Part { name: name.into(), shape: vec![values.len(), 1], values: values.into() }
}

fn tensor<'a>((name, (shape, values)): (&'a String, &'a (Vec<usize>, Vec<f32>))) -> Part<'a> {
    Part { name: name.into(), shape: shape.clone(), values: values.into() }
}

impl Model {
    /// Returns everything that was learned, as matrices with fixed names.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] for neighbor lists of more than 2^24 items.
    pub fn parts(&self) -> Result<Vec<Part<'_>>> {
        Ok(match self {
            Self::Factors(factors) => {
                let Factors { user, item, user_bias, item_bias, mean } = factors;
                let mut parts = vec![rows("user", user), rows("item", item)];
                parts.extend(user_bias.as_deref().map(|bias| column("user.bias", bias)));
                parts.extend(item_bias.as_deref().map(|bias| column("item.bias", bias)));
                let values = vec![*mean].into();
                parts.push(Part { name: "mean".into(), shape: vec![1, 1], values });
                parts
            }
            Self::Items { item, context, state } => {
                let context = context.as_ref().map(|context| rows("context", context));
                let tables = [rows("item", item)].into_iter().chain(context);
                tables.chain(state.iter().map(tensor)).collect()
            }
            Self::Documents { doc, word, context, count } => {
                let mut parts =
                    vec![rows("doc", doc), rows("context", context), column("word.count", count)];
                parts.extend((word.n_rows() > 0).then(|| rows("word", word)));
                parts
            }
            Self::Popularity(counts) => vec![column("popularity", counts)],
            Self::Neighbors { k, item, similarity } => {
                let n = similarity.len().checked_div(*k).unwrap_or(0);
                if n > MOST_ITEMS {
                    return Err(Error::shape(format!("too many items: {n}, at most {MOST_ITEMS}")));
                }
                let numbers: Vec<f32> = item.iter().map(|&i| i as f32).collect();
                let part = |name: &'static str, values| Part {
                    name: name.into(),
                    shape: vec![n, *k],
                    values,
                };
                vec![
                    part("neighbour.item", numbers.into()),
                    part("neighbour.similarity", similarity.into()),
                ]
            }
            Self::Weights(weights) => vec![rows("weights", weights)],
            Self::Sequential(model) => {
                let Sequential { architecture, item, nets, state } = model;
                let numbers = architecture.numbers();
                let mut parts = vec![rows("item", item)];
                let shape = vec![numbers.len(), 1];
                parts.push(Part { name: ARCHITECTURE.into(), shape, values: numbers.into() });
                parts.extend(nets.iter().chain(state).map(tensor));
                parts
            }
        })
    }

    /// Returns a copy of the matrices.
    ///
    /// # Errors
    /// Those of [`Self::parts`].
    pub fn tensors(&self) -> Result<TensorMap> {
        let parts = self.parts()?.into_iter();
        Ok(parts.map(|p| (p.name.into_owned(), (p.shape, p.values.into_owned()))).collect())
    }

    /// Returns the vector tables among the matrices.
    pub fn tables(&self) -> Vec<ModelTable<'_>> {
        let table = |name, rows| ModelTable { name, rows, bias: None };
        match self {
            Self::Factors(factors) => vec![
                ModelTable { bias: factors.user_bias.as_deref(), ..table("user", &factors.user) },
                ModelTable { bias: factors.item_bias.as_deref(), ..table("item", &factors.item) },
            ],
            Self::Items { item, context, .. } => {
                let context = context.as_ref().map(|context| table("context", context));
                [table("item", item)].into_iter().chain(context).collect()
            }
            Self::Documents { doc, word, context, .. } => {
                let mut tables = vec![table("doc", doc), table("context", context)];
                tables.extend((word.n_rows() > 0).then(|| table("word", word)));
                tables
            }
            Self::Sequential(model) => vec![table("item", &model.item)],
            Self::Popularity(_) | Self::Neighbors { .. } | Self::Weights(_) => Vec::new(),
        }
    }

    /// Checks that `other` is of the same kind and shapes as this model.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] names the matrix that differs.
    pub(crate) fn check_replacement(&self, other: &Self) -> Result<()> {
        let (own, new) = (self.parts()?, other.parts()?);
        let differs = |own: &&Part<'_>| {
            !new.iter().any(|new| (&new.name, &new.shape) == (&own.name, &own.shape))
        };
        match own.iter().find(differs) {
            None if own.len() == new.len() => Ok(()),
            differing => Err(Error::shape(format!(
                "matrix `{}` is missing or has another shape: the model has another configuration",
                differing.map_or("?", |part| &*part.name)
            ))),
        }
    }

    /// Returns the model that was written as these matrices.
    ///
    /// # Errors
    /// [`veridical_core::Error::Shape`] if the matrices are not those of a model.
    pub fn from_parts(mut parts: TensorMap) -> Result<Self> {
        if let Some((_, numbers)) = parts.remove(ARCHITECTURE) {
            return Sequential::from_parts(&numbers, parts).map(Self::Sequential);
        }
        let mut take = |name: &str| {
            let (shape, values) = parts.remove(name)?;
            Some((<[usize; 2]>::try_from(shape).ok()?, values))
        };
        let embedding =
            |([_, dim], values): ([usize; 2], Vec<f32>)| Embedding::new(dim.max(1), values);
        let values = |(_, values): ([usize; 2], Vec<f32>)| values;
        if let Some(doc) = take("doc") {
            let (Some(context), Some(count)) = (take("context"), take("word.count")) else {
                return Err(incomplete());
            };
            let word = take("word").map_or_else(|| Embedding::zeros(0, context.0[1]), embedding);
            if doc.0[1] != context.0[1]
                || word.dim() != context.0[1]
                || count.1.len() != context.0[0]
            {
                return Err(incomplete());
            }
            let (doc, context, count) = (embedding(doc), embedding(context), count.1);
            return Ok(Self::Documents { doc, word, context, count });
        }
        if let Some(user) = take("user") {
            let (Some(item), Some(mean)) = (take("item"), take("mean")) else {
                return Err(incomplete());
            };
            if user.0[1] != item.0[1] || mean.1.len() != 1 {
                return Err(incomplete());
            }
            return Ok(Self::Factors(Factors {
                user: embedding(user),
                item: embedding(item),
                user_bias: take("user.bias").map(values),
                item_bias: take("item.bias").map(values),
                mean: mean.1.first().copied().unwrap_or(0.0),
            }));
        }
        if let Some(item) = take("item") {
            let context = take("context").map(embedding);
            parts.retain(|name, _| name.starts_with(STATE));
            return Ok(Self::Items { item: embedding(item), context, state: parts });
        }
        if let Some(counts) = take("popularity") {
            return Ok(Self::Popularity(counts.1));
        }
        if let Some(weights) = take("weights") {
            return Ok(Self::Weights(embedding(weights)));
        }
        match (take("neighbour.item"), take("neighbour.similarity")) {
            (Some((shape, numbers)), Some((same, similarity))) if shape == same => {
                let item = numbers.iter().map(|&i| i as u32).collect::<Vec<_>>();
                if item.iter().any(|&i| i as usize >= shape[0]) {
                    return Err(incomplete());
                }
                Ok(Self::Neighbors { k: shape[1], item, similarity })
            }
            _ => Err(incomplete()),
        }
    }
}

pub(crate) fn incomplete() -> Error {
    Error::damaged("the matrices are not those of a model; train it again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_comes_back() {
        let rows =
            |n, first: f32| Embedding::new(2, (0..2 * n).map(|i| first + i as f32).collect());
        let factors = Factors {
            user: rows(3, 0.0),
            item: rows(2, 9.0),
            user_bias: None,
            item_bias: Some(vec![0.5, 0.25]),
            mean: 3.5,
        };
        let items = |context, state| Model::Items { item: rows(2, 1.0), context, state };
        let state = ("state.item.steps".to_owned(), (vec![1, 1], vec![7.0]));
        let models = [
            Model::Factors(factors),
            items(None, TensorMap::default()),
            items(Some(rows(2, 2.0)), TensorMap::default()),
            items(Some(rows(2, 2.0)), TensorMap::from([state])),
            Model::Documents {
                doc: rows(2, 0.0),
                word: rows(3, 1.0),
                context: rows(3, 2.0),
                count: vec![3.0, 2.0, 1.0],
            },
            Model::Documents {
                doc: rows(2, 0.0),
                word: Embedding::zeros(0, 2),
                context: rows(3, 2.0),
                count: vec![3.0, 2.0, 1.0],
            },
            Model::Popularity(vec![3.0, 1.0]),
            Model::Neighbors { k: 1, item: vec![1, 0], similarity: vec![0.5, 0.25] },
            Model::Weights(rows(2, 0.0)),
        ];
        for model in models {
            assert_eq!(Model::from_parts(model.tensors().unwrap()).unwrap(), model);
        }
        assert!(Model::from_parts(TensorMap::default()).is_err());
    }
}
