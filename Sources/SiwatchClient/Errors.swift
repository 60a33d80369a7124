// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// siwatch refused a request, or no whole answer came: then `status` is nil.
public struct SiwatchError: Error, Sendable, Equatable, CustomStringConvertible {
    public let status: Int?
    /// `type` and `detail` are those of the problem document.
    public let type, detail: String?
    public let description: String
    let retryAfter: Duration

    init(status: Int? = nil, type: String? = nil, title: String? = nil, detail: String? = nil, retryAfter: Duration = .zero) {
        self.status = status
        self.type = type
        self.detail = detail
        self.retryAfter = retryAfter
        description = [status.map { "\($0)" }, title, detail].compactMap(\.self).joined(separator: ": ")
    }

    /// Whether the same call may succeed later.
    public var isTemporary: Bool { status.map { [408, 429, 502, 503, 504].contains($0) } ?? true }
}

/// siwatch was not asked, because it could not be with this.
public struct InvalidArgument: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}

/// Apple or siwatch rejected the sign-in `id`. `reason` says why, such as `code_expired`. `detail` tells people which member is wrong.
public struct SignInRejected: Error, Sendable, Equatable {
    public let reason: String
    public let detail: String?
    public let id: String
}

/// Changes are missing. Ask `endsSession` for each session that you keep, and follow again after `next`.
public struct ChangesGone: Error, Sendable, Equatable {
    public let next: String
}

/// The request is no webhook of siwatch, or it is too old. Answer 400.
public struct WebhookRejected: Error, Sendable, Equatable {
    public let detail: String
}

/// A secret of webhooks is not base64.
public struct BadWebhookSecret: Error, Sendable, Equatable {}
