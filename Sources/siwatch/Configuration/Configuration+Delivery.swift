// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
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
        /// In PEM, who may have signed the receiver's certificate. Nil for the authorities of the host.
        var caFile: String?
        /// Empty for all.
        var apps: [String] = []
        /// Empty for all.
        var types: [WebhookType] = []
        /// Whether e-mail addresses are told.
        var email = false
        /// Whether the URL may lead to a link-local address.
        var allowAnyAddress = false

        /// Why no webhook could go where the URL is written to go; nil for a name, which is looked up for each delivery.
        var danger: String? {
            guard !allowAnyAddress, HostAddress.isDangerousAsWritten(url.host ?? "") else { return nil }
            return "leads to an address where clouds hand out credentials; if you want that, allow_any_address = true"
        }

        /// For people: without the query, which may hold a token.
        var shownURL: String { url.absoluteString.withoutQuery.printable }
    }

    var deliverySecretFiles: [(place: String, path: String)] {
        deliveries.enumerated().flatMap { index, delivery in
            delivery.secretFiles.enumerated().map { ("delivery[\(index)].secret_files[\($0)]", $1) }
        }
    }

    var deliveryAuthorityFiles: [(place: String, path: String)] {
        deliveries.enumerated().compactMap { index, delivery in delivery.caFile.map { (place: "delivery[\(index)].ca_file", path: $0) } }
    }

    func noteContradictionsOfDeliveries(in root: inout TableReader) {
        var names = FirstPlaces()
        for (index, delivery) in deliveries.enumerated() {
            names.enter(delivery.name, at: "delivery[\(index)].name", in: &root)
            for app in delivery.apps where !app.isEmpty && !apps.contains(where: { $0.name == app }) {
                root.note(.at("delivery[\(index)].apps", "names an app that is not configured"))
            }
            if let danger = delivery.danger { root.note(.at("delivery[\(index)].url", danger)) }
            if delivery.caFile != nil, delivery.url.scheme == "http" {
                root.note(.at("delivery[\(index)].ca_file", "belongs to an https:// URL, and delivery[\(index)].url is none"))
            }
        }
    }

    /// - Returns: by the name of the delivery.
    /// - Throws: all mistakes at once. None quotes what a file holds.
    func readDeliveryKeys() throws(InvalidConfiguration) -> [String: DeliveryKeys] {
        var keys: [String: DeliveryKeys] = [:]
        var mistakes: [ConfigurationMistake] = []
        for (index, delivery) in deliveries.enumerated() {
            var own = DeliveryKeys()
            for (position, path) in delivery.secretFiles.enumerated() {
                let place = "delivery[\(index)].secret_files[\(position)]"
                do {
                    let text = try TextFile.read(path, limit: 1024, isSecret: true)
                    if let secret = WebhookSecret(Secret(text.trimmingCharacters(in: .whitespaces))) {
                        own.secrets.append(secret)
                    } else {
                        mistakes.append(.at(place, "\(path) is no secret of webhooks; siwatch secret new webhook makes one"))
                    }
                } catch {
                    mistakes.append(.at(place, "\(path) \(error)"))
                }
            }
            if let path = delivery.caFile {
                let place = "delivery[\(index)].ca_file"
                do {
                    own.authorities = try TrustedAuthorities(pem: try TextFile.read(path, limit: Self.longestAuthorityFile))
                } catch let error as TextFileError {
                    mistakes.append(.at(place, "\(path) \(error)"))
                } catch {
                    mistakes.append(.at(place, "\(path) holds no certificate in PEM (-----BEGIN CERTIFICATE-----), or a broken one"))
                }
            }
            keys[delivery.name] = own
        }
        guard mistakes.isEmpty else { throw InvalidConfiguration(source: source, mistakes: mistakes) }
        return keys
    }

    /// In bytes: several times a host's own list.
    private static let longestAuthorityFile = 1 << 20
}

extension Configuration.Delivery: ConfigurationPart {
    mutating func read(_ table: inout TableReader) {
        table.require("name", .name, into: &name)
        table.require("url", .endpoint(mayHaveQuery: true), into: &url)
        table.require("secret_files", .texts(.fileName), into: &secretFiles)
        table.read("ca_file", .optional(.fileName), into: &caFile)
        table.read("apps", .texts(.name, mayBeEmpty: true), into: &apps)
        table.read("types", .list(of: .choice(), mayBeEmpty: true), into: &types)
        table.read("email", .flag, into: &email)
        table.read("allow_any_address", .flag, into: &allowAnyAddress)
    }

    mutating func resolve(_ names: FileNames) {
        secretFiles = secretFiles.map(names.keyPath)
        caFile = caFile.map(names.keyPath)
    }

    var webhookTypes: Set<WebhookType> { Set(types.isEmpty ? WebhookType.allCases : types) }
}

extension String {
    /// A URL up to its query.
    var withoutQuery: String { String(prefix { $0 != "?" }) }
}
