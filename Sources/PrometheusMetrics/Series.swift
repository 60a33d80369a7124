// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import NIOConcurrencyHelpers

/// The values under one name and one set of labels. It is the swift-metrics handler itself, shared by all its users.
protocol Series: AnyObject, Sendable {
    /// The kind of a metric without a declaration.
    static var undeclaredKind: MetricDescription.Kind { get }

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

/// A sum that only grows. It is a `Double`, as in Prometheus, and stops at the greatest finite one.
final class CounterSeries: Series, CounterHandler, FloatingPointCounterHandler {
    static let undeclaredKind = MetricDescription.Kind.counter

    private let value = NIOLockedValueBox(0.0)

    func increment(by amount: Int64) { increment(by: Double(amount)) }

    /// Ignores negative amounts, infinities and NaN.
    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        value.withLockedValue { $0 = ($0 + amount).clampedToFinite }
    }

    /// Starts over at 0. Prometheus takes that for a restart.
    func reset() { value.withLockedValue { $0 = 0 } }

    func write(_ name: String, _ labels: String, to text: inout TextExposition) {
        text.sample(name, labels, value.withLockedValue(\.self))
    }
}

/// A number that goes up and down. Infinities and NaN are values like any other.
final class GaugeSeries: Series, MeterHandler, RecorderHandler {
    static let undeclaredKind = MetricDescription.Kind.gauge

    private let value: NIOLockedValueBox<Double>

    init(_ value: Double = 0) {
        self.value = NIOLockedValueBox(value)
    }

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.withLockedValue { $0 = value } }
    func increment(by amount: Double) { value.withLockedValue { $0 += amount } }
    func decrement(by amount: Double) { value.withLockedValue { $0 -= amount } }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func write(_ name: String, _ labels: String, to text: inout TextExposition) {
        text.sample(name, labels, value.withLockedValue(\.self))
    }
}

/// A distribution: how many observations fell into each bucket, and their sum.
final class HistogramSeries: Series, RecorderHandler, TimerHandler {
    /// The bounds of Prometheus's own libraries for a duration in seconds.
    static let undeclaredKind = MetricDescription.Kind.histogram(buckets: [
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ])

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
            $0.sum = ($0.sum + value).clampedToFinite
        }
    }

    /// Records a duration, in seconds, Prometheus's unit of time.
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

extension Double {
    fileprivate var clampedToFinite: Double {
        min(max(self, -.greatestFiniteMagnitude), .greatestFiniteMagnitude)
    }
}
