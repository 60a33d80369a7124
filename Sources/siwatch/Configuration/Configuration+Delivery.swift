// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Webhooks

extension Configuration {
    /// A backend that wants to be told of changes.
    struct Delivery: Sendable, Equatable {
        var name = ""
        var url = URL(string: "https://localhost/")!
        /// Two while a secret changes.
        var secretFiles: [String] = []
        /// Empty for all.
        var apps: [String] = []
        /// Empty for all.
        var types: [String] = []
        /// Whether e-mail addresses are told.
        var email = false
        /// Whether the URL may lead to a link-local address.
        var allowAnyAddress = false
    }

    var deliverySecretFiles: [(place: String, path: String)] {
        deliveries.enumerated().flatMap { index, delivery in
            delivery.secretFiles.enumerated().map { ("delivery[\(index)].secret_files[\($0)]", $1) }
        }
    }

    func noteContradictionsOfDeliveries(in root: inout TableReader) {
        for (index, delivery) in deliveries.enumerated() {
            if let first = deliveries.firstIndex(where: { $0.name == delivery.name }), first != index, !delivery.name.isEmpty {
                root.note(.at("delivery[\(index)].name", "is the same as delivery[\(first)].name"))
            }
            for app in delivery.apps where !app.isEmpty && !apps.contains(where: { $0.name == app }) {
                root.note(.at("delivery[\(index)].apps", "names an app that is not configured"))
            }
        }
    }

    /// - Throws: all mistakes at once. None quotes what a file holds.
    func readDeliverySecrets() throws(InvalidConfiguration) -> [String: [WebhookSecret]] {
        var secrets: [String: [WebhookSecret]] = [:]
        var mistakes: [ConfigurationMistake] = []
        for (index, delivery) in deliveries.enumerated() {
            for (position, path) in delivery.secretFiles.enumerated() {
                let place = "delivery[\(index)].secret_files[\(position)]"
                do {
                    let text = try TextFile.read(path, limit: 1024, isSecret: true)
                    if let secret = WebhookSecret(Secret(text.trimmingCharacters(in: .whitespacesAndNewlines))) {
                        secrets[delivery.name, default: []].append(secret)
                    } else {
                        mistakes.append(.at(place, "\(path) is no secret of webhooks; siwatch delivery secret makes one"))
                    }
                } catch {
                    mistakes.append(.at(place, "\(path) \(error)"))
                }
            }
        }
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: source, mistakes: mistakes) }
        return secrets
    }
}

extension Configuration.Delivery {
    mutating func read(_ table: inout TableReader) {
        table.require("name", .name, into: &name)
        table.require("url", .endpoint, into: &url)
        table.require("secret_files", .texts(.fileName), into: &secretFiles)
        table.read("apps", .texts(.name, mayBeEmpty: true), into: &apps)
        table.read("types", .texts(.webhookType, mayBeEmpty: true), into: &types)
        table.read("email", .flag, into: &email)
        table.read("allow_any_address", .flag, into: &allowAnyAddress)
    }

    var webhookTypes: Set<WebhookType> { types.isEmpty ? Set(WebhookType.allCases) : Set(types.compactMap(WebhookType.init)) }
}

extension ValueRule<String> {
    fileprivate static var webhookType: ValueRule {
        .string("must be one of \(WebhookType.allCases.map(\.rawValue).joined(separator: ", "))") {
            WebhookType(rawValue: $0) == nil ? nil : $0
        }
    }
}
