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
        var email = false
        /// Whether the URL may lead to a link-local address.
        var allowAnyAddress = false

        /// Why no webhook could go where the URL is written to go; nil for a name, which is looked up for each delivery.
        var danger: String? {
            guard !allowAnyAddress, HostAddress.isDangerousAsWritten(url.host ?? "") else { return nil }
            return "leads to an address where clouds hand out credentials; if you want that, allow_any_address = true"
        }

        /// For people: without the query, which may hold a token.
        var shownURL: String { String(url.absoluteString.prefix { $0 != "?" }).printable }
    }
}

extension Configuration.Delivery: ConfigurationPart {
    mutating func read(_ table: inout TableReader) {
        table.require("name", .name, into: &name)
        table.distinguish("name", name)
        table.require("url", .endpoint(mayHaveQuery: true), into: &url)
        table.require("secret_files", .texts(.file(table.names.keyPath)), into: &secretFiles)
        table.read("ca_file", .optional(.file(table.names.keyPath)), into: &caFile)
        table.read("apps", .texts(.name, mayBeEmpty: true), into: &apps)
        table.read("types", .list(of: .choice(), mayBeEmpty: true), into: &types)
        table.read("email", .flag, into: &email)
        table.read("allow_any_address", .flag, into: &allowAnyAddress)
        if let danger { table.note("url", danger) }
        if caFile != nil, url.scheme == "http" { table.note("ca_file", "belongs to an https:// URL, and this url is none") }
    }

    var webhookTypes: Set<WebhookType> { Set(types.isEmpty ? WebhookType.allCases : types) }
}
