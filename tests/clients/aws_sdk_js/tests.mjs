// All tests of the AWS SDK for JavaScript, in one process: `node --test-reporter=tap tests.mjs`.

import './buckets.mjs';
import './multipart.mjs';
import './objects.mjs';
import './presigned.mjs';
import './versions.mjs';
