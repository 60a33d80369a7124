// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// Every metric of the process, and the page on which Prometheus reads them.
///
/// Metrics are declared with a help text. A metric without labels is on the page from the start, at 0. A series with labels is on the page,
/// at 0, once a handler for it was made. That lets `rate()` see its first increment. A library's metric without a declaration appears too.
///
/// The first use of a name decides its kind. A use that clashes with that kind, or has undeclared or illegal labels, is counted in
/// ``clashes`` and otherwise ignored.
package final class PrometheusRegistry: Sendable {
    private struct State {
        var families: [String: Family] = [:]
        /// All names that come before a value: a histogram `x` also writes `x_count`.
        var sampleNames: Set<String> = []
        var clashes = 0

        /// - Returns: false if one of its sample names is taken.
        mutating func add(_ family: Family, as name: String) -> Bool {
            let names =
                switch family.kind {
                case .counter, .gauge: [name]
                case .histogram: [name, "\(name)_bucket", "\(name)_sum", "\(name)_count"]
                }
            guard sampleNames.isDisjoint(with: names) else { return false }
            sampleNames.formUnion(names)
            families[name] = family
            return true
        }

        /// - Returns: nil if the name is taken, or belongs to another kind or other labels.
        mutating func series<S: Series>(_ name: String, _ labels: Labels, as type: S.Type) -> S? {
            if families[name] == nil {
                let family = Family(kind: S.undeclaredKind, help: "Registered without a description.", labels: nil)
                guard add(family, as: name) else { return nil }
            }
            guard let family = families[name], family.labels ?? labels.names == labels.names else { return nil }
            if let series = family.series[labels.text] { return series as? S }
            guard let series = family.kind.makeSeries() as? S else { return nil }
            families[name]?.series[labels.text] = series
            return series
        }
    }

    private let state: NIOLockedValueBox<State>
    private let process: ProcessMetrics?

    /// - Parameter process: the source of `process_*` at each exposition; nil for none.
    package init(_ metrics: [MetricDescription] = [], process: ProcessMetrics? = ProcessMetrics()) {
        var state = State()
        for metric in metrics {
            let labels = metric.labels.map(\.legalName).sorted()
            var family = Family(kind: metric.kind, help: metric.help, labels: labels)
            if labels.isEmpty { family.series[""] = metric.kind.makeSeries() }
            if !state.add(family, as: metric.name.legalName) { state.clashes += 1 }
        }
        self.state = NIOLockedValueBox(state)
        self.process = process
    }

    /// How many registrations have failed since the start. It is 0 in a program without mistakes.
    package var clashes: Int { state.withLockedValue(\.clashes) }

    /// All metrics as text, by metric name and then by labels.
    ///
    /// Each series is read at one moment, so a histogram agrees with itself. Two series may be a moment apart.
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

    /// Finds a series, or makes it. From then on it is on the page, at 0 until it is written.
    ///
    /// - Returns: nil if it clashes.
    func series<S: Series>(_ name: String, _ dimensions: [(String, String)], as type: S.Type) -> S? {
        let name = name.legalName
        let labels = Labels(dimensions)
        return state.withLockedValue { state in
            let series = labels.flatMap { state.series(name, $0, as: type) }
            if series == nil { state.clashes += 1 }
            return series
        }
    }

    /// Takes a series off the page, because its owner promises swift-metrics never to write it again.
    ///
    /// If it is asked for later, it starts at 0. A counter or histogram without labels stays, because its metric has no other series.
    func remove(_ handler: AnyObject) {
        state.withLockedValue { state in
            for (name, family) in state.families {
                for (labels, series) in family.series where series === handler && (!labels.isEmpty || series is GaugeSeries) {
                    state.families[name]?.series[labels] = nil
                }
            }
        }
    }
}

/// All series of one name.
struct Family: Sendable {
    var kind: MetricDescription.Kind
    var help: String
    /// The sorted names of the labels; nil if they were not declared.
    var labels: [String]?
    /// By the text of the labels.
    var series: [String: any Series] = [:]
}
