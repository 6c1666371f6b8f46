"""What was measured, kept in a JSON file: written after every system, so that an interrupted run goes on where it was."""
import json
import os


def key_of(model, setting, system):
    return f"{model}/{setting}/{system}"


class Results:
    def __init__(self, path):
        self.path = path
        kept = json.loads(path.read_text()) if path.exists() else {}
        self.machine, self.versions = kept.get("machine", {}), kept.get("versions", {})
        self.peaks, self.exports, self.measured = kept.get("peaks", {}), kept.get("exports", {}), kept.get("results", {})

    def get(self, model, setting, system):
        return self.measured.get(key_of(model, setting, system))

    def put(self, model, setting, system, facts):
        self.measured[key_of(model, setting, system)] = facts
        self.save()

    def peak(self, threads):
        return self.peaks.get(f"{self.machine.get('cpu')} {threads}")

    def settings_of(self, models):
        """The settings of which there is a result of one of these models, in the order they were measured."""
        found = {}
        for key in self.measured:
            model, setting, _ = key.split("/")
            if model in models:
                found[setting] = None
        return list(found)

    def save(self):
        text = json.dumps({"machine": self.machine, "versions": self.versions, "peaks": self.peaks, "exports": self.exports,
                           "results": self.measured}, indent=1)
        beside = self.path.with_suffix(".new")
        beside.write_text(text + "\n")
        os.replace(beside, self.path)
