//! A benchmark as a picture: the time of each kind of operation next to the least time for its bytes, and the speeds
//! against the length of the prompt.

use ganglion::bench::{Context, Report, StepKind};
use plotters::coord::Shift;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 960;
const TITLE: u32 = 40;
/// The height of the bars of one kind of operation.
const BARS: u32 = 36;
/// The height of the heading and the axis of a context's bars.
const AROUND_BARS: u32 = 70;
const SPEEDS: u32 = 320;
/// The width of the operations' names.
const NAMES: u32 = 150;

// The library's points are larger than the text that it draws.
const HEADING: (&str, u32) = ("sans-serif", 22);
const CAPTION: (&str, u32) = ("sans-serif", 18);
const LABEL: (&str, u32) = ("sans-serif", 15);

const TIME: RGBColor = RGBColor(0x2b, 0x6c, 0xb0);
const FLOOR: RGBColor = RGBColor(0xb0, 0xb8, 0xc4);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// Draws the picture under a title.
pub(super) fn svg(report: &Report, title: &str) -> Drawn<String> {
    let contexts = &report.contexts;
    let has_kinds = |context: &&Context| !context.operations.is_empty();
    let shown: Vec<_> = contexts.iter().filter(has_kinds).collect();
    let height = |context: &&Context| {
        let kinds = u32::try_from(context.operations.len()).unwrap_or(u32::MAX);
        AROUND_BARS + BARS * kinds
    };
    let bars: u32 = shown.iter().map(height).sum();
    let mut svg = String::new();
    {
        let size = (WIDTH, TITLE + bars + SPEEDS);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        root.titled(title, HEADING)?;
        let (_, mut rest) = root.split_vertically(TITLE);
        for context in shown {
            let (area, below) = rest.split_vertically(height(&context));
            kinds(&area, context)?;
            rest = below;
        }
        let (left, right) = rest.split_horizontally(WIDTH / 2);
        let prompt = |context: &Context| context.best.prefill;
        speeds(&left, "tokens/s of the prompt", contexts, prompt)?;
        let decode = |context: &Context| context.best.decode;
        speeds(&right, "tokens/s of decoding after it", contexts, decode)?;
        root.present()?;
    }
    Ok(svg)
}

/// Draws two bars for each kind of operation, the first one on top.
fn kinds(area: &Area, context: &Context) -> Drawn {
    let kinds = &context.operations;
    let floor = |kind: &StepKind| kind.floor_microseconds.unwrap_or(0.0);
    let longer = |kind: &StepKind| kind.microseconds.max(floor(kind));
    let most = kinds.iter().map(longer).fold(0.0, f64::max);
    let last = kinds.len() - 1;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) if *at <= last => kinds[last - at].name.clone(),
        _ => String::new(),
    };
    let caption = format!(
        "microseconds of a step after {} tokens, by kind of operation; grey: its bytes at this memory's speed",
        context.prompt
    );
    let mut chart = ChartBuilder::on(area)
        .caption(caption, CAPTION)
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(NAMES)
        // The figures next to the longest bar need room.
        .build_cartesian_2d(0.0..most * 1.3, (0..last).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(LABEL)
        .x_label_formatter(&|time| format!("{time:.0}"))
        .y_labels(kinds.len())
        .y_label_formatter(&name)
        .draw()?;
    for (at, kind) in kinds.iter().rev().enumerate() {
        for (time, color, above, below) in [
            (kind.microseconds, TIME, 5, BARS / 2),
            (floor(kind), FLOOR, BARS / 2, 5),
        ] {
            let end = (time, SegmentValue::Exact(at + 1));
            let mut bar = Rectangle::new([(0.0, SegmentValue::Exact(at)), end], color.filled());
            bar.set_margin(above, below, 0, 0);
            chart.draw_series([bar])?;
        }
        let mut figures = format!(" {:.0} us", kind.microseconds);
        if floor(kind) > 0.0 {
            let times = kind.microseconds / floor(kind);
            figures = format!("{figures} = {times:.1} x {:.0}", floor(kind));
        }
        let end = (longer(kind), SegmentValue::CenterOf(at));
        let beside = TextStyle::from(LABEL).pos(Pos::new(HPos::Left, VPos::Center));
        chart.draw_series([Text::new(figures, end, beside)])?;
    }
    Ok(())
}

/// Draws a line through the contexts.
#[allow(clippy::cast_precision_loss)] // lengths of prompts
fn speeds(area: &Area, caption: &str, contexts: &[Context], of: fn(&Context) -> f64) -> Drawn {
    let points = contexts.iter().map(|one| (one.prompt as f64, of(one)));
    let mut points: Vec<_> = points.collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    // The axis extends beyond the points, because a range of a single length would be empty.
    let [least, greatest] = [points.first(), points.last()].map(|end| end.map_or(1.0, |end| end.0));
    let lengths = least / 1.5..greatest * 1.5;
    let most = points.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, CAPTION)
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(lengths.log_scale(), 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(LABEL)
        .x_desc("tokens of the prompt")
        .x_label_formatter(&|length| format!("{length:.0}"))
        .y_label_formatter(&|speed| format!("{speed:.0}"))
        .draw()?;
    let dot = |point: &(f64, f64)| Circle::new(*point, 3, TIME.filled());
    let dots: Vec<_> = points.iter().map(dot).collect();
    chart.draw_series(LineSeries::new(points, TIME.stroke_width(2)))?;
    chart.draw_series(dots)?;
    Ok(())
}
