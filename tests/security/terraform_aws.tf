# Users, groups, roles, policies and a bucket with its settings, as the AWS provider makes them.

variable "endpoint" { type = string }
variable "region" { type = string }
variable "days" { type = number }

provider "aws" {
  region                  = var.region
  s3_force_path_style     = true
  skip_metadata_api_check = true
  skip_get_ec2_platforms  = true
  skip_region_validation  = true
  endpoints {
    s3  = var.endpoint
    iam = var.endpoint
    sts = var.endpoint
  }
}

data "aws_caller_identity" "me" {}

resource "aws_iam_user" "ann" {
  name = "tf-ann"
  path = "/people/"
}

resource "aws_iam_access_key" "ann" { user = aws_iam_user.ann.name }

resource "aws_iam_group" "family" { name = "tf-family" }

resource "aws_iam_group_membership" "family" {
  name  = "tf-family"
  group = aws_iam_group.family.name
  users = [aws_iam_user.ann.name]
}

data "aws_iam_policy_document" "photos" {
  statement {
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = ["arn:aws:s3:::tf-photos/ann/*", "arn:aws:s3:::tf-photos/${var.days}/*"]
  }
  statement {
    actions   = ["s3:ListBucket"]
    resources = ["arn:aws:s3:::tf-photos"]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["ann/*"]
    }
  }
}

resource "aws_iam_policy" "photos" {
  name        = "tf-photos"
  description = "The photos of ann"
  policy      = data.aws_iam_policy_document.photos.json
}

resource "aws_iam_user_policy_attachment" "ann" {
  user       = aws_iam_user.ann.name
  policy_arn = aws_iam_policy.photos.arn
}

resource "aws_iam_group_policy_attachment" "family" {
  group      = aws_iam_group.family.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
}

resource "aws_iam_user_policy" "inline" {
  name   = "inline"
  user   = aws_iam_user.ann.name
  policy = data.aws_iam_policy_document.photos.json
}

resource "aws_iam_group_policy" "inline" {
  name   = "inline"
  group  = aws_iam_group.family.name
  policy = data.aws_iam_policy_document.photos.json
}

resource "aws_iam_role" "backup" {
  name = "tf-backup"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { AWS = aws_iam_user.ann.arn } }]
  })
}

resource "aws_iam_role_policy" "backup" {
  name   = "inline"
  role   = aws_iam_role.backup.name
  policy = data.aws_iam_policy_document.photos.json
}

resource "aws_iam_role_policy_attachment" "backup" {
  role       = aws_iam_role.backup.name
  policy_arn = aws_iam_policy.photos.arn
}

resource "aws_s3_bucket" "photos" {
  bucket        = "tf-photos"
  acl           = "private"
  force_destroy = true
  versioning { enabled = true }
  cors_rule {
    allowed_methods = ["GET"]
    allowed_origins = ["https://example.com"]
  }
  lifecycle_rule {
    id      = "old"
    enabled = true
    prefix  = "tmp/"
    expiration { days = var.days }
    noncurrent_version_expiration { days = 3 }
  }
  server_side_encryption_configuration {
    rule {
      apply_server_side_encryption_by_default {
        sse_algorithm = "AES256"
      }
    }
  }
  tags = { team = "home" }
}

resource "aws_s3_bucket_policy" "photos" {
  bucket = aws_s3_bucket.photos.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = aws_iam_user.ann.arn }
      Action    = "s3:GetObject"
      Resource  = "arn:aws:s3:::tf-photos/ann/*"
    }]
  })
}

resource "aws_s3_bucket_public_access_block" "photos" {
  bucket              = aws_s3_bucket.photos.id
  block_public_acls   = true
  block_public_policy = true
}

resource "aws_s3_bucket_object" "hello" {
  bucket  = aws_s3_bucket.photos.id
  key     = "ann/hello.txt"
  content = "hello"
  etag    = md5("hello")
  tags    = { a = "b" }
}

output "account" { value = data.aws_caller_identity.me.account_id }
output "key" { value = aws_iam_access_key.ann.id }
output "secret" {
  value     = aws_iam_access_key.ann.secret
  sensitive = true
}
