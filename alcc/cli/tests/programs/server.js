// SPDX-License-Identifier: Apache-2.0 OR MIT
// A web server with Node's http: a file is piped into the response.
const fs = require('fs');
const http = require('http');
const path = require('path');

http.createServer((request, response) => {
  fs.createReadStream(path.join(process.argv[2], path.basename(request.url))).pipe(response);
}).listen(8080, '0.0.0.0');
