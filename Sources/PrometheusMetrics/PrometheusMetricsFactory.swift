// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CoreMetrics

/// Gives the series of a registry to swift-metrics.
///
/// Nothing here fails. For a series that clashes with another, the caller gets a handler that does nothing, and the registry counts the
/// clash.
package struct PrometheusMetricsFactory: MetricsFactory {
    private let registry: PrometheusRegistry

    package init(registry: PrometheusRegistry) {
        self.registry = registry
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        registry.series(label, dimensions, as: CounterSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
        registry.series(label, dimensions, as: CounterSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        registry.series(label, dimensions, as: GaugeSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        if aggregate {
            registry.series(label, dimensions, as: HistogramSeries.self) ?? NOOPMetricsHandler.instance
        } else {
            registry.series(label, dimensions, as: GaugeSeries.self) ?? NOOPMetricsHandler.instance
        }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        registry.series(label, dimensions, as: HistogramSeries.self) ?? NOOPMetricsHandler.instance
    }

    package func destroyCounter(_ handler: any CounterHandler) { registry.remove(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { registry.remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { registry.remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { registry.remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { registry.remove(handler) }
}
