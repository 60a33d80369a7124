// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import NIOConcurrencyHelpers

/// Counters, gauges and histograms. Each is looked up once, because a metrics backend sorts and writes out its labels at each look-up.
final class Instruments: Sendable {
    private struct Series: Hashable {
        var metric: Metric
        var labels: [String: String]
    }

    private struct State {
        var counters: [Series: Counter] = [:]
        var gauges: [Series: Meter] = [:]
        var histograms: [Series: Recorder] = [:]
    }

    private let factory: any MetricsFactory
    private let state = NIOLockedValueBox(State())

    init(_ factory: any MetricsFactory) {
        self.factory = factory
    }

    func counter(_ metric: Metric, _ labels: [String: String] = [:]) -> Counter {
        find(\.counters, metric, labels) { Counter(label: $0, dimensions: $1, factory: factory) }
    }

    func gauge(_ metric: Metric, _ labels: [String: String] = [:]) -> Meter {
        find(\.gauges, metric, labels) { Meter(label: $0, dimensions: $1, factory: factory) }
    }

    func histogram(_ metric: Metric, _ labels: [String: String] = [:]) -> Recorder {
        find(\.histograms, metric, labels) { Recorder(label: $0, dimensions: $1, aggregate: true, factory: factory) }
    }

    /// Leaves gauges out of the metrics until they are set again; those of all labels if there are none.
    func forgetGauges(of metrics: [Metric], with labels: [String: String]? = nil) {
        let metrics = Set(metrics)
        let forgotten = state.withLockedValue { state in
            let forgotten = state.gauges.filter { metrics.contains($0.key.metric) && (labels == nil || $0.key.labels == labels) }
            for series in forgotten.keys { state.gauges[series] = nil }
            return forgotten.values
        }
        for gauge in forgotten { gauge.destroy() }
    }

    private func find<Instrument>(
        _ kind: WritableKeyPath<State, [Series: Instrument]>,
        _ metric: Metric,
        _ labels: [String: String],
        make: (_ label: String, _ dimensions: [(String, String)]) -> Instrument
    ) -> Instrument {
        let series = Series(metric: metric, labels: labels)
        return state.withLockedValue { state in
            if let made = state[keyPath: kind][series] { return made }
            let new = make(metric.name, labels.map { ($0.key, $0.value) })
            state[keyPath: kind][series] = new
            return new
        }
    }
}
