// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CoreMetrics
import NIOConcurrencyHelpers

/// The metrics of the process, each declared by its kind, its labels and its help. Any other use is counted in ``clashes`` and ignored.
///
/// A metric without labels is on the page from the start, at 0. A series with labels is there, at 0, once a handler for it was made. That
/// lets `rate()` see its first increment.
package final class PrometheusRegistry: Sendable {
    private struct State {
        var families: [String: Family] = [:]
        var clashes = 0
    }

    private let state: NIOLockedValueBox<State>
    private let process: ProcessMetrics?

    /// - Parameter process: the source of `process_*` at each exposition; nil for none.
    package init(_ metrics: [MetricDescription] = [], process: ProcessMetrics? = ProcessMetrics()) {
        var state = State()
        for metric in metrics {
            var family = Family(kind: metric.kind, help: metric.help, labels: metric.labels.sorted())
            if family.labels.isEmpty { family.series[""] = metric.kind.makeSeries() }
            state.families[metric.name] = family
        }
        self.state = NIOLockedValueBox(state)
        self.process = process
    }

    /// How many registrations have failed since the start. It is 0 in a program without mistakes.
    package var clashes: Int { state.withLockedValue(\.clashes) }

    /// All metrics as text. Each series is read at one moment, so a histogram agrees with itself. Two series may be a moment apart.
    package func exposition(_ format: ExpositionFormat = .prometheus) -> String {
        let registered = state.withLockedValue(\.families)
        let families = registered.merging(process?.families() ?? [:]) { registered, _ in registered }
        var text = TextExposition(format)
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            text.begin(name, family.kind, help: family.help)
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.write(name, labels, to: &text)
            }
        }
        text.end()
        return text.text
    }

    /// Finds a series, or makes it. From then on it is on the page, at 0 until it is written. Nil if none is declared so.
    func series<S: Series>(_ name: String, _ dimensions: [(String, String)], as type: S.Type) -> S? {
        let labels = Labels(dimensions)
        return state.withLockedValue { state in
            guard let family = state.families[name], family.labels == labels.names,
                let series = (family.series[labels.text] ?? family.kind.makeSeries()) as? S
            else {
                state.clashes += 1
                return nil
            }
            if family.series[labels.text] == nil { state.families[name]?.series[labels.text] = series }
            return series
        }
    }

    /// Takes a gauge off the page, because its owner promises swift-metrics never to write it again.
    func remove(_ gauge: AnyObject) {
        state.withLockedValue { state in
            for (name, family) in state.families {
                for (labels, series) in family.series where series === gauge { state.families[name]?.series[labels] = nil }
            }
        }
    }
}

/// Nothing here fails. For a clash the caller gets a handler that does nothing.
extension PrometheusRegistry: MetricsFactory {
    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions, as: CounterSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions, as: GaugeSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        series(label, dimensions, as: HistogramSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions, as: HistogramSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    // A counter and a histogram stay. Starting over would pass for a restart.
    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}
}

struct Family: Sendable {
    var kind: MetricDescription.Kind
    var help: String
    /// The sorted names of the labels.
    var labels: [String]
    var series: [String: any Series] = [:]
}
