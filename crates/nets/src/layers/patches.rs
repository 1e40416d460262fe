//! Windows of an image as rows of a matrix (im2col), and back.
//!
//! Row r = (sample, oy, ox) of the patches holds x[sample, oy s + ky - p, ox s + kx - p, c] in the order ky, kx, c, zeros
//! outside: a convolution is the product of the patches with the weights. With channels last, the values of one ky
//! are contiguous in memory. With groups the order is group, ky, kx, channel of the group.

use crate::float::wide;
use crate::{Float, Shape};

/// Geometry of the windows of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub input: Shape,
    pub output: Shape,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub groups: usize,
}

/// One ky of one window: the location of its contiguous run.
struct Span {
    /// Offset in the row of patches.
    to: usize,
    /// Offset in the sample, and the number of values; 0 if all of it is outside.
    from: usize,
    len: usize,
    /// Number of zeros before and after.
    before: usize,
    after: usize,
}

impl Windows {
    /// Values per row of patches.
    pub fn row(&self) -> usize {
        self.kernel * self.kernel * self.input.channels
    }

    /// Whether the patches are the input itself.
    pub fn is_identity(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    #[inline(always)]
    fn run(&self, oy: usize, ox: usize, ky: usize) -> Span {
        let Self { input, kernel, stride, padding, .. } = *self;
        let c = input.channels;
        let to = ky * kernel * c;
        let y = oy * stride + ky;
        let x = ox * stride;
        let outside = Span { to, from: 0, len: 0, before: kernel * c, after: 0 };
        if y < padding || y - padding >= input.height {
            return outside;
        }
        let first = padding.saturating_sub(x).min(kernel);
        let last = (input.width + padding).saturating_sub(x).min(kernel);
        if last <= first {
            return outside;
        }
        let from = ((y - padding) * input.width + x + first - padding) * c;
        let after = (kernel - last) * c;
        Span { to, from, len: (last - first) * c, before: first * c, after }
    }

    /// Writes rows from row `first` on, counted over the samples of x, until `patches` is full.
    pub fn gather<T: Float>(&self, x: &[T], first: usize, patches: &mut [T]) {
        let (positions, values) = (self.output.positions(), self.input.values());
        wide(
            #[inline(always)]
            move || {
                let (mut r, mut rest) = (first, patches);
                while !rest.is_empty() {
                    let (sample, p) = (r / positions, r % positions);
                    let (oy, ox) = (p / self.output.width, p % self.output.width);
                    let count = (self.output.width - ox).min(rest.len() / self.row());
                    let (line, later) = rest.split_at_mut(count * self.row());
                    self.gather_line(&x[sample * values..][..values], oy, ox, line);
                    (r, rest) = (r + count, later);
                }
            },
        );
    }

    /// Writes the windows of one sample on the line oy, from ox on.
    #[inline(always)]
    fn gather_line<T: Float>(&self, x: &[T], oy: usize, ox: usize, line: &mut [T]) {
        let Self { input, kernel, stride, padding, groups, .. } = *self;
        let (c, width) = (input.channels, self.row());
        for ky in 0..kernel {
            for (ox, row) in (ox..).zip(line.chunks_exact_mut(width)) {
                let y = (oy * stride + ky).wrapping_sub(padding);
                let left = (ox * stride).wrapping_sub(padding);
                let is_inside = y < input.height && left < input.width;
                if is_inside && left + kernel <= input.width && groups == 1 {
                    let from = &x[(y * input.width + left) * c..][..kernel * c];
                    copy(&mut row[ky * kernel * c..][..kernel * c], from);
                } else {
                    self.gather_edge(x, oy, ox, ky, row);
                }
            }
        }
    }

    /// Writes one ky of a window that reaches beyond the image, or whose groups are not contiguous.
    #[inline(never)]
    fn gather_edge<T: Float>(&self, x: &[T], oy: usize, ox: usize, ky: usize, row: &mut [T]) {
        let run = self.run(oy, ox, ky);
        if self.groups > 1 {
            return self.spread(&run, x, row, ky);
        }
        let row = &mut row[run.to..][..run.before + run.len + run.after];
        let (before, rest) = row.split_at_mut(run.before);
        let (inside, after) = rest.split_at_mut(run.len);
        inside.copy_from_slice(&x[run.from..][..run.len]);
        before.fill(T::ZERO);
        after.fill(T::ZERO);
    }

    /// Writes one ky with the channels of each group together.
    fn spread<T: Float>(&self, run: &Span, x: &[T], row: &mut [T], ky: usize) {
        let (c, k) = (self.input.channels, self.kernel);
        let own = c / self.groups;
        for g in 0..self.groups {
            let row = &mut row[(g * k + ky) * k * own..][..k * own];
            for kx in 0..k {
                let to = &mut row[kx * own..][..own];
                let at = kx * c;
                if at < run.before || at >= run.before + run.len {
                    to.fill(T::ZERO);
                } else {
                    to.copy_from_slice(&x[run.from + at - run.before + g * own..][..own]);
                }
            }
        }
    }

    /// Adds rows of patches to the samples they were gathered from: the transpose of [`Windows::gather`].
    #[inline(always)]
    pub fn scatter<T: Float>(&self, patches: &[T], first: usize, dx: &mut [T]) {
        let width = self.row();
        let (positions, values) = (self.output.positions(), self.input.values());
        let (c, k) = (self.input.channels, self.kernel);
        let own = c / self.groups;
        for (r, row) in (first..).zip(patches.chunks_exact(width)) {
            let (sample, p) = (r / positions, r % positions);
            let (oy, ox) = (p / self.output.width, p % self.output.width);
            let dx = &mut dx[sample * values..][..values];
            for ky in 0..k {
                let run = self.run(oy, ox, ky);
                if self.groups == 1 {
                    let row = &row[run.to + run.before..][..run.len];
                    add(&mut dx[run.from..][..run.len], row);
                    continue;
                }
                for at in (run.before..run.before + run.len).step_by(c) {
                    for g in 0..self.groups {
                        let row = &row[((g * k + ky) * k + at / c) * own..][..own];
                        add(&mut dx[run.from + at - run.before + g * own..][..own], row);
                    }
                }
            }
        }
    }
}

/// A copy specialized for the lengths of narrow images: 3 x 3 windows of one and of three channels.
#[inline(always)]
fn copy<T: Float>(to: &mut [T], from: &[T]) {
    if let (Ok(to), Ok(from)) = (<&mut [T; 3]>::try_from(&mut *to), <&[T; 3]>::try_from(from)) {
        *to = *from;
    } else if let (Ok(to), Ok(from)) =
        (<&mut [T; 9]>::try_from(&mut *to), <&[T; 9]>::try_from(from))
    {
        *to = *from;
    } else {
        to.copy_from_slice(from);
    }
}

#[inline(always)]
fn add<T: Float>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(t, f)| *t += *f);
}
