// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import NIOConcurrencyHelpers

/// The values under one name and one set of labels. It is the swift-metrics handler itself, shared by all its users.
protocol Series: AnyObject, Sendable {
    func write(_ name: String, _ labels: String, to text: inout TextExposition)
}

extension MetricDescription.Kind {
    func makeSeries() -> any Series {
        switch self {
        case .counter: CounterSeries()
        case .gauge: GaugeSeries()
        case .histogram(let buckets): HistogramSeries(buckets: buckets)
        }
    }
}

/// A sum that only grows. It is a `Double`, as in Prometheus.
final class CounterSeries: Series, CounterHandler {
    private let value = NIOLockedValueBox(0.0)

    func increment(by amount: Int64) { value.withLockedValue { $0 += Double(max(amount, 0)) } }

    /// Starts over at 0. Prometheus takes that for a restart.
    func reset() { value.withLockedValue { $0 = 0 } }

    func write(_ name: String, _ labels: String, to text: inout TextExposition) {
        text.sample(name, labels, value.withLockedValue(\.self))
    }
}

/// A number that goes up and down. Infinities and NaN are values like any other.
final class GaugeSeries: Series, MeterHandler {
    private let value: NIOLockedValueBox<Double>

    init(_ value: Double = 0) { self.value = NIOLockedValueBox(value) }

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.withLockedValue { $0 = value } }
    func increment(by amount: Double) { value.withLockedValue { $0 += amount } }
    func decrement(by amount: Double) { value.withLockedValue { $0 -= amount } }

    func write(_ name: String, _ labels: String, to text: inout TextExposition) {
        text.sample(name, labels, value.withLockedValue(\.self))
    }
}

/// A distribution: how many observations fell into each bucket, and their sum.
final class HistogramSeries: Series, RecorderHandler, TimerHandler {
    private struct Observations {
        /// By bucket and not cumulative, so that an observation changes only one number.
        var counts: [Int]
        var sum = 0.0
    }

    /// Ascending. The last is +Inf.
    private let bounds: [Double]
    private let observations: NIOLockedValueBox<Observations>

    init(buckets: [Double]) {
        bounds = Set(buckets.filter(\.isFinite)).sorted() + [.infinity]
        observations = NIOLockedValueBox(Observations(counts: Array(repeating: 0, count: bounds.count)))
    }

    func record(_ value: Int64) { record(Double(value)) }

    /// Ignores infinities and NaN, because one of them would spoil the sum for good.
    func record(_ value: Double) {
        guard value.isFinite, let bucket = bounds.firstIndex(where: { value <= $0 }) else { return }
        observations.withLockedValue {
            $0.counts[bucket] += 1
            $0.sum = min(max($0.sum + value, -.greatestFiniteMagnitude), .greatestFiniteMagnitude)
        }
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func write(_ name: String, _ labels: String, to text: inout TextExposition) {
        let observations = observations.withLockedValue(\.self)
        var count = 0
        for (bound, inBucket) in zip(bounds, observations.counts) {
            count += inBucket
            text.sample("\(name)_bucket", "\(labels)\(labels.isEmpty ? "" : ",")le=\"\(text.bound(bound))\"", Double(count))
        }
        text.sample("\(name)_sum", labels, observations.sum)
        text.sample("\(name)_count", labels, Double(count))
    }
}

package struct MetricDescription: Sendable {
    package enum Kind: Sendable {
        case counter
        case gauge
        /// Counts the values up to each bound, in the metric's own unit. The bound +Inf is added.
        case histogram(buckets: [Double])
    }

    var name: String
    var kind: Kind
    var help: String
    /// The names of the labels that every series has; empty for a metric of one series.
    var labels: [String]

    package init(_ name: String, _ kind: Kind, help: String, labels: [String] = []) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
    }
}
