import ArgumentParser
@main struct AppleSimulator: AsyncParsableCommand {}
