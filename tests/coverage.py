#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py SOURCE: prints for each folder how many of the product's lines were executed since the build; not-executed.txt lists the
lines that were not.

Runs in the top folder of a build with --coverage, after its tests; a line that is compiled into several objects counts once."""

import gzip
import json
import os
import subprocess
import sys
import tempfile

FOLDERS = ('backends', 'command', 'gen', 'runtime', 'verify')


def counts(build):
    """Runs gcov, and yields its JSON about each object file that was executed."""
    data = [os.path.join(folder, file) for folder, _, files in os.walk(build) for file in files if file.endswith('.gcda')]
    if not data:
        sys.exit('coverage.py: nothing was counted here: it needs a build with CFLAGS=--coverage LDFLAGS=--coverage, and its tests')
    with tempfile.TemporaryDirectory() as scratch:
        for first in range(0, len(data), 40):
            subprocess.run(['gcov', '-j', '-l', '-p', *data[first:first + 40]], cwd=scratch, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for file in sorted(os.listdir(scratch)):
            with gzip.open(os.path.join(scratch, file)) as text:
                yield json.load(text)


def main():
    source = os.path.realpath(sys.argv[1])
    executed = {}
    for count in counts(os.path.realpath('.')):
        for file in count['files']:
            path = os.path.relpath(os.path.realpath(os.path.join(count['current_working_directory'], file['file'])), source)
            if path.split('/')[0] in FOLDERS:
                for line in file['lines']:
                    place = path, line['line_number']
                    executed[place] = executed.get(place, False) or line['count'] > 0
    for folder in FOLDERS:
        lines = [hit for (path, _), hit in executed.items() if path.startswith(folder + '/')]
        print(f'{folder:10} {sum(lines):6} of {len(lines):6} lines')
    print(f'{"all":10} {sum(executed.values()):6} of {len(executed):6} lines')
    with open('not-executed.txt', 'w', encoding='ascii') as out:
        out.writelines(f'{path}:{line}\n' for (path, line), hit in sorted(executed.items()) if not hit)


main()
